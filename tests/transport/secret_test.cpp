#include "transport/wire/secret.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "tests/transport/test_secret.h"

namespace sluice::secret_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;
namespace fs = std::filesystem;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    text += fmt::format("{:02x}", std::to_integer<int>(byte));
  }
  return text;
}

// RFC 4231, test case 2.
TEST(Hmac, IsThatOfTheStandard) {
  EXPECT_EQ(
      hex(hmac(bytes_of("Jefe"), bytes_of("what do ya want for nothing?"))),
      "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(Secret, IsReadAsItWasWritten) {
  const Secret secret = make_secret();
  EXPECT_EQ(parse_secret(secret.text() + "\n", "a test").text(), secret.text());
}

TEST(Secret, IsAnotherOneEachTime) {
  EXPECT_NE(make_secret().text(), make_secret().text());
}

TEST(Secret, HasAnotherKeyForEachPurpose) {
  EXPECT_EQ(test_secret().key_for("a"), test_secret().key_for("a"));
  EXPECT_NE(test_secret().key_for("a"), test_secret().key_for("b"));
  EXPECT_NE(test_secret().key_for("a"), other_secret().key_for("a"));
}

TEST(Secret, ThatWasNotGivenMakesNoKey) {
  EXPECT_TRUE(Secret().empty());
  EXPECT_THROW(Secret().key_for("a"), InternalError);
}

TEST(Secret, SecretOfWrongLengthIsRefusedWithoutRepeatingIt) {
  EXPECT_THAT([] { parse_secret("abcdef", "SLUICE_SECRET"); },
              ThrowsMessage<UserError>(AllOf(
                  HasSubstr("the secret in SLUICE_SECRET has 6 characters "
                            "instead of 64 hexadecimal digits"),
                  Not(HasSubstr("abcdef")))));
}

TEST(Secret, WithAnotherCharacterIsRefused) {
  std::string text = test_secret().text();
  text[63] = 'g';
  EXPECT_THAT([&] { parse_secret(text, "a test"); },
              ThrowsMessage<UserError>(
                  HasSubstr("a character 64 that is no hexadecimal digit")));
}

class SecretFile : public testing::Test {
 protected:
  SecretFile() {
    std::string folder = fs::temp_directory_path() / "slc-XXXXXX";
    EXPECT_NE(::mkdtemp(folder.data()), nullptr);
    path_ = fs::path(folder) / "secret";
  }
  ~SecretFile() override { fs::remove_all(path_.parent_path()); }

  void write(const std::string& text, fs::perms mode) {
    std::ofstream(path_) << text;
    fs::permissions(path_, mode);
  }

  fs::path path_;
};

constexpr fs::perms kOurs = fs::perms::owner_read | fs::perms::owner_write;

TEST_F(SecretFile, IsRead) {
  write(test_secret().text() + "\n", kOurs);
  EXPECT_EQ(read_secret(path_).text(), test_secret().text());
}

TEST_F(SecretFile, ThatOthersMayReadIsRefusedWithTheRemedy) {
  write(test_secret().text(), kOurs | fs::perms::group_read);
  EXPECT_THAT([&] { read_secret(path_); },
              ThrowsMessage<UserError>(
                  AllOf(HasSubstr("has mode 0640: others may use it"),
                        HasSubstr("chmod 600"), Not(HasSubstr("0707")))));
}

TEST_F(SecretFile, ThatIsNotThereIsNamed) {
  EXPECT_THAT([&] { read_secret(path_); },
              ThrowsMessage<UserError>(
                  AllOf(HasSubstr(path_.string()), HasSubstr("openssl rand"))));
}

TEST_F(SecretFile, ThatIsAFolderIsRefused) {
  fs::create_directory(path_);
  EXPECT_THAT([&] { read_secret(path_); },
              ThrowsMessage<UserError>(HasSubstr("is no regular file")));
}

TEST_F(SecretFile, ThatIsTooLongIsRefused) {
  write(test_secret().text() + "00", kOurs);
  EXPECT_THROW(read_secret(path_), UserError);
}

}  // namespace sluice::secret_test
