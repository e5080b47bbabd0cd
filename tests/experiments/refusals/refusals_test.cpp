// Configs and commands that are refused in one line. Their cases lie in TOML
// files: configs/ is read here, inputs/ and commands/ are given to the program.
// A new refusal is a line there.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/config/files/toml.h"
#include "experiments/config/reading/read_experiment.h"
#include "lib/base/error.h"
#include "tests/experiments/helpers/claims.h"
#include "tests/experiments/helpers/refused_command.h"

namespace sluice::refusals_test {

namespace fs = std::filesystem;

using testing::HasSubstr;
using testing::Not;

const auto kName = [](const auto& info) { return info.param.name; };

/// What each config of configs/ has that says nothing else.
ConfigNode small_config() {
  return parse_toml(
      "data = {train = 320, test = 64}\nbatch_size = 32\nthreads = 1\n"
      "turns = 20\n",
      "defaults");
}

std::string error_of(const ConfigNode& config) {
  try {
    read_experiment(config, "");
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

class RefusedConfigs : public testing::TestWithParam<Claim> {};

TEST_P(RefusedConfigs, BreakTheClaimInOneLineThatSaysWhy) {
  ASSERT_EQ(GetParam().fault, "");
  for (const ClaimCase& each : GetParam().cases) {
    SCOPED_TRACE(each.place);
    const std::string error = error_of(laid_over(small_config(), each.keys));
    EXPECT_EQ(error == "accepted", each.errors.empty()) << error;
    for (const std::string& part : each.errors)
      EXPECT_THAT(error, HasSubstr(part));
    EXPECT_THAT(error, Not(HasSubstr("\n")));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Claims, RefusedConfigs,
    testing::ValuesIn(claims_in("experiments/refusals/configs")), kName);

/// Beside the folder `work`, in which the command runs, lie its config and its
/// files.
class RefusedCommands : public RefusedCommand,
                        public testing::WithParamInterface<Claim> {
 protected:
  RefusedCommands() {
    write("secret", std::string(64, 'a'));
    write("short", "abc");
    fs::permissions(path("secret"), fs::perms(0644));
    fs::permissions(path("short"), fs::perms(0600));
    EXPECT_EQ(shell("mkfifo -m 600 " + path("fifo")).status, 0);
  }

  static std::string text(const ConfigNode& keys, const char* key) {
    return std::get<std::string>(keys.find(key)->value);
  }

  static ConfigNode::Table table(const ConfigNode& keys, const char* key) {
    const ConfigNode* found = keys.find(key);
    return found == nullptr ? ConfigNode::Table{}
                            : std::get<ConfigNode::Table>(found->value);
  }
};

TEST_P(RefusedCommands, BreakTheClaimInOneLineAndWriteNothing) {
  ASSERT_EQ(GetParam().fault, "");
  for (const ClaimCase& each : GetParam().cases) {
    SCOPED_TRACE(each.place);
    write("config.toml", text(each.keys, "config"));
    for (const auto& [name, node] : table(each.keys, "files"))
      write(name, std::get<std::string>(node.value));
    std::string before = "env";
    for (const auto& [name, node] : table(each.keys, "environment"))
      before += " " + name + "=" + std::get<std::string>(node.value);
    expect_refusal(text(each.keys, "command"), each.errors, before);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Inputs, RefusedCommands,
    testing::ValuesIn(claims_in("experiments/refusals/inputs")), kName);
INSTANTIATE_TEST_SUITE_P(
    Commands, RefusedCommands,
    testing::ValuesIn(claims_in("experiments/refusals/commands")), kName);

}  // namespace sluice::refusals_test
