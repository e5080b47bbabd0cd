// A resolved config is a config: common keys of later layers hold for all
// blocks. Issue 55, item 11.
#include "experiments/config/files/common_keys.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/config/experiment.h"
#include "experiments/config/files/extends.h"
#include "experiments/config/files/overrides.h"
#include "experiments/config/files/toml.h"
#include "experiments/config/reading/read_experiment.h"
#include "experiments/sweep/file/cells.h"
#include "lib/base/files/temporary_folder.h"

namespace sluice::common_keys_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kSmall =
    "data = {train = 64, test = 32}\nmodel.hidden = [16, 16, 16]\n"
    "batch_size = 16\nturns = 2\nthreads = 1\n";

using Overrides = std::vector<std::string>;

ConfigNode with(ConfigNode config, const Overrides& overrides) {
  for (const std::string& text : overrides) apply_override(config, text);
  return config;
}

ConfigNode small(const std::string& lines, const Overrides& overrides = {}) {
  return with(parse_toml(kSmall + lines, "a.toml"), overrides);
}

/// As the config of a run's folder has it: a whole table for each block.
ConfigNode resolved(const std::string& lines, const Overrides& overrides = {}) {
  const ConfigNode config = read_experiment(small(lines), "").resolved;
  return with(parse_toml(to_toml(config), "run.toml"), overrides);
}

/// "0.5 0.5": of all blocks.
std::string values(const ConfigNode& config, const std::string& table,
                   const std::string& key) {
  const Experiment experiment = read_experiment(config, "");
  std::string text;
  const ConfigNode* tables = experiment.resolved.find(table);
  for (const auto& [number, one] : std::get<ConfigNode::Table>(tables->value)) {
    const ConfigNode* node = one.find(key);
    text += (text.empty() ? "" : " ") +
            (node == nullptr ? "absent" : node->literal());
  }
  return text;
}

std::string rates(const ConfigNode& config) {
  return values(config, "optimizer", "lr");
}

constexpr const char* kTwo = "blocks = 2\noptimizer.lr = 0.1\n";

// "nothing takes this key: each numbered table names its own name".
TEST(CommonKeys, KeysOfTheCommandLineHoldForAllBlocksOfAResolvedConfig) {
  EXPECT_EQ(rates(resolved(kTwo, {"optimizer.lr=0.5"})), "0.5 0.5");
  EXPECT_EQ(values(resolved(kTwo, {"optimizer.momentum=0.9"}), "optimizer",
                   "momentum"),
            "0.9 0.9");
  EXPECT_EQ(
      values(resolved(kTwo, {"optimizer.clip.norm=1"}), "optimizer", "clip"),
      R"({norm = 1.0, scope = "block", at = "update"} )"
      R"({norm = 1.0, scope = "block", at = "update"})");
}

TEST(CommonKeys, GiveWayToOneBlocksKeyInTheSameLayer) {
  for (const Overrides& both :
       {Overrides{"optimizer.lr=0.5", "optimizer.2.lr=0.2"},
        Overrides{"optimizer.2.lr=0.2", "optimizer.lr=0.5"},
        Overrides{"optimizer.lr=0.5", "optimizer.last.lr=0.2"}})
    EXPECT_EQ(rates(resolved(kTwo, both)), "0.5 0.2") << both.front();
  EXPECT_EQ(rates(resolved(kTwo, {"optimizer.lr=0.5", "optimizer.lr=0.3"})),
            "0.3 0.3");
}

TEST(CommonKeys, HoldForAllWhereTheyRepeatWhatAFileSays) {
  const std::string file =
      "blocks = 2\noptimizer = {lr = 0.1, 2 = {lr = 0.4}}\n";
  EXPECT_EQ(rates(small(file)), "0.1 0.4");
  EXPECT_EQ(rates(small(file, {"optimizer.lr=0.1"})), "0.1 0.1");
  EXPECT_EQ(rates(small(file, {"optimizer.2.lr=0.4", "optimizer.lr=0.3"})),
            "0.3 0.4");
}

TEST(CommonKeys, KeysOfAnotherOptimizerDropItsOptionsInAllBlocks) {
  const ConfigNode changed =
      resolved("blocks = 2\noptimizer = {lr = 0.1, momentum = 0.9}\n",
               {"optimizer.name=adam"});
  EXPECT_EQ(values(changed, "optimizer", "name"), R"("adam" "adam")");
  EXPECT_EQ(values(changed, "optimizer", "momentum"), "absent absent");
  EXPECT_EQ(rates(changed), "0.1 0.1");
  EXPECT_THAT(read_experiment(changed, "").left_out,
              testing::Contains(HasSubstr("has dropped optimizer.1.momentum")));
}

constexpr const char* kMixed =
    "blocks = 3\noptimizer.3.name = 'adam'\n"
    "boundary = {1 = {policy = 'local_loss', head.name = 'predsim'}, "
    "2 = {policy = 'backprop'}}\n";

TEST(CommonKeys, GoToTheBlocksWhosePolicyOrRuleHasThem) {
  EXPECT_EQ(values(resolved(kMixed, {"optimizer.momentum=0.8"}), "optimizer",
                   "momentum"),
            "0.8 0.8 absent");
  const ConfigNode heads = resolved(kMixed, {"boundary.head.name=linear"});
  EXPECT_THAT(values(heads, "boundary", "head"),
              AllOf(HasSubstr("name = \"linear\""), HasSubstr(" absent")));
  EXPECT_EQ(values(resolved(kMixed, {"boundary.policy=backprop"}), "boundary",
                   "policy"),
            R"("backprop" "backprop")");
}

TEST(CommonKeys, KeysOfAFileThatExtendsHoldForAllBlocksToo) {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder.path() + "/" + name) << text;
    return folder.path() + "/" + name;
  };
  write("a.toml", kSmall + std::string(kTwo) + "optimizer.2.lr = 0.4\n");
  const auto extended = [&](const std::string& over) {
    return read_config_file(
        write("b.toml", "extends = 'a.toml'\n" + over + "\n"));
  };
  EXPECT_EQ(rates(extended("turns = 3")), "0.1 0.4");
  EXPECT_EQ(rates(extended("optimizer.lr = 0.3")), "0.3 0.3");
  EXPECT_EQ(rates(extended("optimizer.lr = 0.1")), "0.1 0.1");
  EXPECT_EQ(rates(extended("optimizer = {lr = 0.3, 2 = {lr = 0.2}}")),
            "0.3 0.2");
}

TEST(CommonKeys, KeysOfASweepsCellHoldForAllBlocks) {
  const ConfigNode shared = resolved(kTwo);
  const auto cell = [&](const Overrides& texts) {
    sweep::Cell made;
    for (const std::string& text : texts) {
      const std::size_t equals = text.find('=');
      const std::string key = text.substr(0, equals);
      made.values.emplace_back(key,
                               override_value(text.substr(equals + 1), key));
    }
    return sweep::config_of(shared, made, 1);
  };
  EXPECT_EQ(rates(cell({"optimizer.lr=0.5"})), "0.5 0.5");
  EXPECT_EQ(rates(cell({"optimizer.2.lr=0.1", "optimizer.lr=0.5"})), "0.5 0.1");
}

TEST(CommonKeys, AreWhatAllBlocksOfAResolvedConfigShare) {
  const ConfigNode all =
      read_experiment(small("blocks = 3\noptimizer.lr = 0.3\n"
                            "boundary.policy = 'local_loss'\n"),
                      "")
          .resolved;
  const std::string text = to_toml(with_common_keys(all));
  EXPECT_THAT(text, AllOf(HasSubstr("[optimizer]\nname = \"sgd\"\nlr = 0.3\n"),
                          HasSubstr("[boundary]\n"), Not(HasSubstr(".1]")),
                          Not(HasSubstr(".2]"))));
}

TEST(CommonKeys, LeaveToOneBlockWhatDiffersThere) {
  const ConfigNode all =
      read_experiment(
          small("blocks = 2\noptimizer = {lr = 0.3, clip.norm = 1.0, "
                "2 = {lr = 0.2, clip.norm = 2.0}}\n"),
          "")
          .resolved;
  const ConfigNode common = with_common_keys(all);
  EXPECT_EQ(common.find("optimizer")->find("1")->literal(),
            "{lr = 0.3, clip = {norm = 1.0}}");
  EXPECT_EQ(common.find("optimizer")->find("2")->literal(),
            "{lr = 0.2, clip = {norm = 2.0}}");
}

// Blocks 3 and 4 had default optimizers, without a word.
TEST(CommonKeys, KeysOfARunsConfigGoToTheBlocksOfAnotherCut) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/config.toml";
  std::ofstream(folder.path() + "/run.json") << "{}";
  std::ofstream(path) << to_toml(
      read_experiment(small("blocks = 2\noptimizer.lr = 0.3\n"
                            "boundary.policy = 'local_loss'\n"),
                      "")
          .resolved);
  const Overrides overrides = {"blocks=4"};
  const ConfigNode cut = with(read_config_to_run(path, overrides), overrides);
  EXPECT_EQ(rates(cut), "0.3 0.3 0.3 0.3");
  EXPECT_EQ(values(cut, "boundary", "policy"),
            R"("local_loss" "local_loss" "local_loss")");
  // Else it is as it stands: what is typed replaces a block's whole table.
  const ConfigNode same = read_config_to_run(path, {});
  EXPECT_NE(same.find("optimizer")->find("2"), nullptr);
}

class ResolvedConfig : public testing::TestWithParam<const char*> {};

TEST_P(ResolvedConfig, ReadsToTheSameExperimentWithCommonKeys) {
  const ConfigNode whole = read_experiment(small(GetParam()), "").resolved;
  const ConfigNode common =
      parse_toml(to_toml(with_common_keys(whole)), "common.toml");
  EXPECT_EQ(read_experiment(common, "").resolved, whole);
}

TEST(ResolvedNoise, ResolvedTextsOfNoiseAreReadAgain) {
  const ConfigNode whole =
      read_experiment(
          parse_toml("data = {name = 'noise', context = 6, vocabulary = 11}\n"
                     "model = {name = 'gpt', layers = 2, width = 16, heads = "
                     "2}\n",
                     "a.toml"),
          "")
          .resolved;
  EXPECT_EQ(
      read_experiment(parse_toml(to_toml(whole), "run.toml"), "").resolved,
      whole);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, ResolvedConfig,
    testing::Values(
        "", "blocks = 1\n", kTwo, kMixed,
        "fine_tune = {train = ['*.bias'], lora.rank = 2}\n",
        "blocks = 3\nboundary = {policy = 'local_loss', codec = 'int8', "
        "2 = {head.name = 'predsim'}}\n",
        "blocks = 3\nboundary = {codec = 'fp16', 1.policy = 'backprop', "
        "2.policy = 'delayed_gradient'}\n",
        "blocks = 2\noptimizer = {groups = [{match = ['*.bias'], lr_scale = 2}"
        "], 2.groups = []}\n",
        "blocks = 2\nreplicas = {count = 2, policy = 'all_reduce'}\n",
        "blocks = 3\ntimetable = [{epoch = 0.1, boundary.1.policy = "
        "'local_loss'}]\n"));

}  // namespace sluice::common_keys_test
