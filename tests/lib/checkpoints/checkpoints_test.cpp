#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/base/files/file.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/checkpoints/safetensors.h"

namespace sluice::checkpoints_test {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

class Files : public testing::Test {
 protected:
  Files() {
    std::string pattern = fs::temp_directory_path() / "sluice-test-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~Files() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const {
    return folder_ + "/" + name;
  }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }
  std::string folder_;
};

using Safetensors = Files;
using Checkpoint = Files;
using AtomicFile = Files;

TEST_F(Safetensors, GivesBackNamesTypesAndBits) {
  const NamedTensors tensors = {
      {"a.weight", at::rand({3, 4})},
      {"b", at::arange(5)},
      {"c", at::rand({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast)},
      {"half", at::rand({7}).to(at::kBFloat16)},
      {"none", at::empty({0, 2})},
      {"scalar", at::scalar_tensor(2.5, at::kDouble)}};
  write_safetensors(path("x.safetensors"), tensors);
  const NamedTensors back = read_safetensors(path("x.safetensors"));
  ASSERT_EQ(back.size(), tensors.size());
  for (const auto& named : tensors) {
    const auto same = [&](const auto& other) {
      return other.first == named.first && other.second.equal(named.second) &&
             other.second.scalar_type() == named.second.scalar_type();
    };
    EXPECT_TRUE(std::any_of(back.begin(), back.end(), same)) << named.first;
  }
}

/// A file with that header and `data` bytes behind it.
std::string safetensors_bytes(const std::string& header, std::size_t data) {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) +
         header + std::string(data, '\0');
}

TEST_F(Safetensors, NamesAFileThatIsNone) {
  for (const auto& [bytes, says] :
       {std::pair<std::string, const char*>{"", "no safetensors file"},
        {"short", "no safetensors file"},
        {std::string(64, '\xff'), "no safetensors file"},
        {safetensors_bytes("{not json", 0), "header is damaged"},
        {safetensors_bytes(R"({"a":{"dtype":"F32"}})", 0), "header is damaged"},
        {safetensors_bytes(
             R"({"a":{"dtype":"X9","shape":[1],"data_offsets":[0,4]}})", 4),
         "unknown element type 'X9'"},
        {safetensors_bytes(
             R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4),
         "needs 8 bytes"},
        {safetensors_bytes(
             R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 3),
         "needs 4 bytes"},
        {safetensors_bytes(
             R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4e20]}})", 4),
         "whole number from 0 of at most 8 bytes, found 4e+20"},
        {safetensors_bytes(
             R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[-1,3]}})", 4),
         "found -1"},
        {safetensors_bytes(
             R"({"a":{"dtype":"U8","shape":[4.5],"data_offsets":[0,4]}})", 4),
         "found 4.5"},
        {safetensors_bytes(
             R"({"a":{"dtype":"F32","shape":[4611686018427387904,)"
             R"(4],"data_offsets":[0,0]}})",
             0),
         "impossible sizes"}}) {
    const std::string file = write("bad.safetensors", bytes);
    EXPECT_THAT([&] { read_safetensors(file); },
                ThrowsMessage<UserError>(
                    testing::AllOf(HasSubstr(file), HasSubstr(says))));
  }
}

TEST_F(Safetensors, NamesAMissingFile) {
  EXPECT_THAT([&] { read_safetensors(path("none")); },
              ThrowsMessage<UserError>(HasSubstr("No such file")));
}

TEST_F(Checkpoint, IsWholeOnlyWhenItIsFinished) {
  const NamedTensors weights = {{"layers.0.weight", at::rand({2})}};
  save_block(folder_, 7, {1}, weights, {});
  EXPECT_FALSE(fs::exists(checkpoint_folder(folder_, 7)));
  finish_checkpoint(folder_, 7);
  const NamedTensors back = load_weights(checkpoint_folder(folder_, 7));
  ASSERT_EQ(back.size(), 1U);
  EXPECT_TRUE(back[0].second.equal(weights[0].second));
}

TEST_F(Checkpoint, CheckpointOfSeveralBlocksIsReadAsOneModel) {
  save_block(folder_, 0, {1}, {{"layers.0.weight", at::ones({1})}}, {});
  save_block(folder_, 0, {2}, {{"layers.1.weight", at::zeros({1})}}, {});
  finish_checkpoint(folder_, 0);
  const NamedTensors into = {{"layers.1.weight", at::ones({1})},
                             {"layers.0.weight", at::zeros({1})}};
  copy_by_name(load_weights(checkpoint_folder(folder_, 0)), into, "here");
  EXPECT_EQ(into[0].second.item<int>(), 0);
  EXPECT_EQ(into[1].second.item<int>(), 1);
}

TEST_F(Checkpoint, KeepsStateApartFromWeights) {
  save_block(folder_, 0, {1}, {{"layers.0.weight", at::ones({1})}},
             {{"layers.0.weight.momentum", at::ones({1})}});
  finish_checkpoint(folder_, 0);
  const std::string checkpoint = checkpoint_folder(folder_, 0);
  ASSERT_EQ(load_weights(checkpoint).size(), 1U);
  ASSERT_EQ(load_state(checkpoint).size(), 1U);
  EXPECT_EQ(load_weights(checkpoint)[0].first, "layers.0.weight");
  EXPECT_EQ(load_state(checkpoint)[0].first, "layers.0.weight.momentum");
}

TEST_F(Checkpoint, HasAReplicaOnlyWithAllOfItsBlocks) {
  const NamedTensors any = {{"w", at::ones({2})}};
  for (const int block : {1, 2})
    for (const int replica : {1, 2})
      save_block(folder_, 8, {block, replica}, any, any);
  save_block(folder_, 8, {1, 3}, any, any);
  finish_checkpoint(folder_, 8);
  const std::string saved = checkpoint_folder(folder_, 8);
  EXPECT_TRUE(has_replica(saved, 1));
  EXPECT_TRUE(has_replica(saved, 2));
  EXPECT_FALSE(has_replica(saved, 3));
  EXPECT_FALSE(has_replica(saved, 4));
}

TEST_F(Checkpoint, IsFoundByItsTurnWhenItIsWhole) {
  for (const int turn : {0, 120, 1234567}) {
    save_block(folder_, turn, {1}, {{"a", at::ones({1})}}, {});
    finish_checkpoint(folder_, turn);
  }
  save_block(folder_, 130, {1}, {{"a", at::ones({1})}}, {});  // not finished
  fs::create_directory_symlink("turn-000120", path("best"));
  std::vector<std::int64_t> turns;
  for (const auto& [turn, found] : find_checkpoints(folder_)) {
    turns.push_back(turn);
    EXPECT_EQ(found, checkpoint_folder(folder_, turn));
  }
  EXPECT_EQ(turns, (std::vector<std::int64_t>{0, 120, 1234567}));
}

TEST_F(Checkpoint, CheckpointOfAnotherFrameworkIsASingleFile) {
  write_safetensors(path("x.safetensors"), {{"layers.0.bias", at::ones({3})}});
  EXPECT_EQ(load_weights(path("x.safetensors"))[0].first, "layers.0.bias");
}

TEST_F(Checkpoint, ThatLacksATensorOrHasAnotherShapeIsRefused) {
  const NamedTensors from = {{"a", at::ones({2})}};
  EXPECT_THAT(
      [&] {
        copy_by_name(from, {{"b", at::ones({2})}}, "x.safetensors");
      },
      ThrowsMessage<UserError>(HasSubstr("x.safetensors: has no tensor 'b'")));
  EXPECT_THAT(
      [&] {
        copy_by_name(from, {{"a", at::ones({3})}}, "x.safetensors");
      },
      ThrowsMessage<UserError>(HasSubstr("'a' is [2], the model's is [3]")));
}

TEST_F(AtomicFile, KeepsTheOldOneWhenWritingFails) {
  const std::string file = write("x", "old");
  EXPECT_THROW(write_file_atomically(file,
                                     [](std::ostream& out) {
                                       out << "new";
                                       out.setstate(std::ios::badbit);
                                     }),
               UserError);
  std::string text;
  std::ifstream(file) >> text;
  EXPECT_EQ(text, "old");
  EXPECT_FALSE(fs::exists(file + ".partial"));
}

TEST_F(AtomicFile, NamesTheFolderThatIsMissing) {
  EXPECT_THAT(
      [&] { write_file_atomically(path("no/x"), [](std::ostream&) {}); },
      ThrowsMessage<UserError>(HasSubstr("No such file or directory")));
}

TEST_F(Checkpoint, ReplacesOneOfTheSameTurn) {
  for (const double value : {1., 2.}) {
    save_block(folder_, 5, {1}, {{"x", at::full({1}, value)}}, {});
    finish_checkpoint(folder_, 5);
  }
  const NamedTensors weights = load_weights(checkpoint_folder(folder_, 5));
  EXPECT_EQ(weights.at(0).second.item<double>(), 2);
  EXPECT_FALSE(fs::exists(checkpoint_folder(folder_, 5) + ".partial"));
}

TEST_F(Checkpoint, ThatIsRemovedIsGone) {
  save_block(folder_, 5, {1}, {{"x", at::ones({1})}}, {});
  finish_checkpoint(folder_, 5);
  remove_checkpoint(checkpoint_folder(folder_, 5));
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(Checkpoint, ThatWasNotFinishedIsRemovedAloneOfAll) {
  save_block(folder_, 5, {1}, {{"x", at::ones({1})}}, {});
  finish_checkpoint(folder_, 5);
  save_block(folder_, 6, {1}, {{"x", at::ones({1})}}, {});
  write("turn.partial", "somebody else's");
  remove_partial_checkpoints(folder_);
  EXPECT_FALSE(fs::exists(checkpoint_folder(folder_, 6) + ".partial"));
  EXPECT_TRUE(fs::exists(checkpoint_folder(folder_, 5)));
  EXPECT_TRUE(fs::exists(path("turn.partial")));
}

}  // namespace sluice::checkpoints_test
