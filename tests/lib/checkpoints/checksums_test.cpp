// Issue 18, item 4: bits that changed in a file are refused.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/checkpoints/safetensors.h"
#include "lib/checkpoints/saved_state.h"

namespace sluice::checksums_test {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

class Checksums : public testing::Test {
 protected:
  Checksums() {
    std::string pattern = fs::temp_directory_path() / "sluice-test-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    file_ = folder_ + "/x.safetensors";
  }
  ~Checksums() override { fs::remove_all(folder_); }

  std::string bytes() const {
    std::ifstream file(file_, std::ios::binary);
    std::stringstream all;
    all << file.rdbuf();
    return all.str();
  }
  void set_bytes(const std::string& bytes) const {
    std::ofstream(file_, std::ios::binary) << bytes;
  }
  std::string folder_;
  std::string file_;
};

bool are_same(const NamedTensors& left, const NamedTensors& right) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [](const auto& one, const auto& other) {
                      return one.first == other.first &&
                             one.second.scalar_type() ==
                                 other.second.scalar_type() &&
                             one.second.equal(other.second);
                    });
}

TEST_F(Checksums, NoFlippedBitOfAFileChangesWhatIsRead) {
  const NamedTensors saved = {{"a.weight", at::rand({2, 3})},
                              {"b", at::arange(3)},
                              {"half", at::rand({3}).to(at::kHalf)},
                              {"none", at::empty({0, 2})}};
  write_safetensors(file_, saved, {{"note", "from here"}});
  ASSERT_TRUE(are_same(read_safetensors(file_), saved));
  const std::string whole = bytes();
  int refused = 0;
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    set_bytes(damaged);
    try {
      EXPECT_TRUE(are_same(read_safetensors(file_), saved)) << "bit " << bit;
    } catch (const UserError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, static_cast<int>(7 * whole.size()));
}

TEST_F(Checksums, DamageIsToldWithFileTensorAndRemedy) {
  write_safetensors(file_, {{"a", at::ones({2})}, {"b", at::ones({2})}});
  std::string damaged = bytes();
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  set_bytes(damaged);
  EXPECT_THAT([&] { read_safetensors(file_); },
              ThrowsMessage<UserError>(AllOf(
                  HasSubstr(file_), HasSubstr("tensor 'b' is damaged"),
                  HasSubstr("an older checkpoint"), Not(HasSubstr("\n")))));
}

TEST_F(Checksums, ANameThatChangedInTheHeaderIsTold) {
  write_safetensors(file_, {{"flights.1.3", at::ones({2})}});
  std::string damaged = bytes();
  damaged[damaged.find("flights")] = 'g';
  set_bytes(damaged);
  EXPECT_THAT([&] { read_safetensors(file_); },
              ThrowsMessage<UserError>(
                  AllOf(HasSubstr(file_), HasSubstr("the header is damaged"))));
}

/// As other programs, and we before, write it.
std::string plain_file(const std::string& type) {
  const std::string header =
      R"({"a":{"dtype":")" + type + R"(","shape":[2],"data_offsets":[0,8]}})";
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) +
         header + std::string("\0\0\x80\x3f\0\0\x80\x3f", 8);
}

TEST_F(Checksums, AFileWithoutThemIsRead) {
  set_bytes(plain_file("F32"));
  const NamedTensors into = {{"a", at::zeros({2})}};
  copy_by_name(read_safetensors(file_), into, file_);
  EXPECT_TRUE(into[0].second.equal(at::ones({2})));
}

TEST_F(Checksums, AnElementTypeThatIsNotTheModelsIsRefused) {
  set_bytes(plain_file("I32"));
  const NamedTensors into = {{"a", at::zeros({2})}};
  EXPECT_THAT([&] { copy_by_name(read_safetensors(file_), into, file_); },
              ThrowsMessage<UserError>(
                  HasSubstr("tensor 'a' is of Int, the model's of Float")));
  EXPECT_TRUE(into[0].second.equal(at::zeros({2})));
}

TEST_F(Checksums, HalfPrecisionIsTakenAndDoublePrecisionIsNot) {
  const NamedTensors into = {{"a", at::zeros({2})}};
  copy_by_name({{"a", at::ones({2}, at::kBFloat16)}}, into, "x");
  EXPECT_TRUE(into[0].second.equal(at::ones({2})));
  EXPECT_THROW(copy_by_name({{"a", at::ones({2}, at::kDouble)}}, into, "x"),
               UserError);
}

TEST(SavedState, ANumberOfAnotherTypeIsRefused) {
  const SavedState saved({{"n", at::scalar_tensor(3, at::kDouble)}}, "x");
  EXPECT_THAT([&] { saved.number("n"); },
              ThrowsMessage<UserError>(HasSubstr("'n' is of Double")));
}

}  // namespace sluice::checksums_test
