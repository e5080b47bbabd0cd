// Config files of strangers that would take minutes and gigabytes: each is
// refused in one line.
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "experiments/config/files/extends.h"
#include "experiments/config/files/toml.h"
#include "lib/base/error.h"

namespace sluice::config_limits_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string error_of(const std::function<void()>& read) {
  try {
    read();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

std::string repeated(int count, const std::function<std::string(int)>& part) {
  std::string all;
  for (int i = 0; i < count; ++i) all += part(i);
  return all;
}

class ConfigLimits : public testing::Test {
 protected:
  ConfigLimits()
      : folder_(std::filesystem::path(testing::TempDir()) /
                fmt::format("config_limits_{}_{}", ::getpid(),
                            testing::UnitTest::GetInstance()
                                ->current_test_info()
                                ->name())) {
    std::filesystem::create_directories(folder_);
  }
  ~ConfigLimits() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) const {
    const std::string path = (folder_ / name).string();
    std::ofstream(path) << text;
    return path;
  }
  static std::string refusal_of(const std::string& path) {
    return error_of([&] { read_config_file(path); });
  }

  std::filesystem::path folder_;
};

/// extends = ['NAME', 'NAME', ...]
std::string extending(const std::string& name, int times) {
  return fmt::format("extends = [{}]\n", repeated(times, [&](int) {
                       return fmt::format("'{}',", name);
                     }));
}

TEST_F(ConfigLimits, HoldWhereTwoFilesExtendEachOtherTwoThousandTimes) {
  write("c.toml", "seed = 1\n");
  write("b.toml", extending("c.toml", 2000));
  const std::string path = write("a.toml", extending("b.toml", 2000));
  EXPECT_THAT(refusal_of(path),
              AllOf(HasSubstr("more than 256 files are read"),
                    HasSubstr("a.toml"), Not(HasSubstr("\n"))));
}

TEST_F(ConfigLimits, HoldWhereEachFileExtendsTheNextTwice) {
  for (int i = 0; i < 25; ++i)
    write(fmt::format("{}.toml", i),
          extending(fmt::format("{}.toml", i + 1), 2));
  write("25.toml", "seed = 1\n");
  EXPECT_THAT(refusal_of((folder_ / "0.toml").string()),
              HasSubstr("more than 256 files are read"));
}

TEST_F(ConfigLimits, HoldForAChainOfFiles) {
  for (int i = 0; i < 100; ++i)
    write(fmt::format("{}.toml", i),
          extending(fmt::format("{}.toml", i + 1), 1));
  write("100.toml", "seed = 1\n");
  EXPECT_THAT(refusal_of((folder_ / "0.toml").string()),
              HasSubstr("leads through more than 32 files"));
  EXPECT_EQ(refusal_of((folder_ / "80.toml").string()), "no error");
}

TEST_F(ConfigLimits, HoldForTheValuesOfAllFilesTogether) {
  const auto keys = [](int i) {
    return fmt::format("key{} = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\n", i);
  };
  write("many.toml", repeated(1'900, keys));
  EXPECT_EQ(refusal_of(write("two.toml", extending("many.toml", 2))),
            "no error");
  EXPECT_THAT(refusal_of(write("five.toml", extending("many.toml", 5))),
              HasSubstr("have more than 100000 values"));
}

TEST(ConfigText, ConfigOfHalfAMillionKeysIsRefusedBeforeItIsParsed) {
  const auto refusal_of = [](const std::string& text) {
    return error_of([&] { parse_toml(text, "a.toml"); });
  };
  const auto key = [](int i) { return fmt::format("k{} = 1\n", i); };
  EXPECT_THAT(refusal_of(repeated(500'000, key)),
              HasSubstr("a.toml:100001: here are more than 100000 keys"));
  EXPECT_THAT(refusal_of(repeated(20'000, key)),
              HasSubstr("a table has 20000 keys; at most 2000 are allowed"));
  EXPECT_THAT(
      refusal_of("a = [" + repeated(200'000, [](int) { return "1,"; }) + "]\n"),
      HasSubstr("more than 100000 keys and values"));
  EXPECT_THAT(refusal_of(repeated(
                  200'000, [](int i) { return fmt::format("[k{}]\n", i); })),
              HasSubstr("more than 100000 keys and values"));
  EXPECT_THAT(
      refusal_of("a = [" + repeated(20'000, [](int) { return "1,"; }) + "]\n"),
      HasSubstr("a.toml:1: a: a list has 20000 values; at most 10000"));
  EXPECT_EQ(refusal_of(repeated(1'900, key)), "no error");
}

TEST(ConfigText, WithAKeyOfMegabytesIsRefusedInAShortLine) {
  const std::string key(std::size_t{1} << 20, 'k');
  const std::string refusal =
      error_of([&] { parse_toml(key + " = 1\n", "a.toml"); });
  EXPECT_THAT(refusal, HasSubstr("has more than 1000 bytes"));
  EXPECT_LT(refusal.size(), 300U);
}

}  // namespace sluice::config_limits_test
