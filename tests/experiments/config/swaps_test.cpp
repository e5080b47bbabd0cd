// Another choice, or another cut, from a later layer of a config: what it makes
// of the options and tables that were meant for the former one.
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/config/experiment.h"
#include "experiments/config/files/extends.h"
#include "experiments/config/files/overrides.h"
#include "experiments/config/reading/read_experiment.h"
#include "experiments/sweep/file/cells.h"
#include "lib/base/error.h"
#include "lib/base/files/temporary_folder.h"

namespace sluice::swaps_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kSmall =
    "data = {train = 64, test = 32}\nmodel.hidden = [16, 16, 16]\n"
    "batch_size = 16\nturns = 2\nthreads = 1\n";

class Swaps : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.path() + "/" + name) << text;
  }
  /// a.toml, with what a small experiment needs, and overrides.
  ConfigNode config(const std::string& lines,
                    const std::vector<std::string>& overrides) const {
    write("a.toml", kSmall + lines);
    return with(read_config_file(folder_.path() + "/a.toml"), overrides);
  }
  /// b.toml, which extends a.toml.
  ConfigNode extended(const std::string& lines, const std::string& over,
                      const std::vector<std::string>& overrides = {}) const {
    write("a.toml", kSmall + lines);
    write("b.toml", "extends = 'a.toml'\n" + over);
    return with(read_config_file(folder_.path() + "/b.toml"), overrides);
  }
  /// What is left out, without the folder's name.
  std::vector<std::string> left_out(const ConfigNode& config) const {
    std::vector<std::string> lines;
    for (const std::string& line : read_experiment(config, "").left_out)
      lines.push_back(without_folder(line));
    return lines;
  }
  std::string error_of(const ConfigNode& config) const {
    try {
      read_experiment(config, "");
    } catch (const UserError& error) {
      return without_folder(error.what());
    }
    return "no error";
  }

 private:
  static ConfigNode with(ConfigNode config,
                         const std::vector<std::string>& overrides) {
    for (const std::string& text : overrides) apply_override(config, text);
    return config;
  }
  std::string without_folder(std::string text) const {
    const std::string folder = folder_.path() + "/";
    for (auto at = text.find(folder); at != std::string::npos;
         at = text.find(folder))
      text.erase(at, folder.size());
    return text;
  }

  TemporaryFolder folder_;
};

/// As `path` of the resolved config.
std::string value_of(const ConfigNode& config, const std::string& table,
                     const std::string& key) {
  const Experiment experiment = read_experiment(config, "");
  const ConfigNode* node = experiment.resolved.find(table);
  if (table == "boundary" || table == "optimizer") node = node->find("1");
  node = node == nullptr ? nullptr : node->find(key);
  return node == nullptr ? "absent" : node->literal();
}

constexpr const char* kPredsim =
    "[boundary]\npolicy = 'local_loss'\n"
    "head = {name = 'predsim', beta = 0.9, dim_in_decoder = 64}\n";

TEST_F(Swaps, AnotherHeadDropsTheFormerOnesOptions) {
  const ConfigNode swapped = config(kPredsim, {"boundary.head.name=linear"});
  EXPECT_THAT(left_out(swapped),
              ElementsAre("boundary.head.name = \"linear\" (command line) has "
                          "dropped boundary.head.beta (a.toml:8), "
                          "boundary.head.dim_in_decoder (a.toml:8)"));
  const ConfigNode plain = config(
      "boundary = {policy = 'local_loss', head = {name = 'linear'}}\n", {});
  EXPECT_EQ(read_experiment(swapped, "").resolved,
            read_experiment(plain, "").resolved);
}

TEST_F(Swaps, AnotherPolicyDropsItsHead) {
  const ConfigNode swapped = config(kPredsim, {"boundary.policy=backprop"});
  EXPECT_THAT(left_out(swapped),
              ElementsAre(HasSubstr("has dropped boundary.head (a.toml:8)")));
  EXPECT_EQ(value_of(swapped, "boundary", "head"), "absent");
}

TEST_F(Swaps, AFileThatExtendsDropsThemToo) {
  const ConfigNode swapped =
      extended(kPredsim, "[boundary]\npolicy = 'delayed_gradient'\n");
  EXPECT_THAT(
      left_out(swapped),
      ElementsAre("boundary.policy = \"delayed_gradient\" (b.toml:3) has "
                  "dropped boundary.head (a.toml:8)"));
}

TEST_F(Swaps, SwapsOfOptimizersModelsAndDataSetsDropWhatTheyLack) {
  EXPECT_THAT(left_out(config("optimizer = {lr = 0.3, momentum = 0.9}\n",
                              {"optimizer.name=adam"})),
              ElementsAre(HasSubstr("optimizer.momentum (a.toml:6)")));
  EXPECT_THAT(left_out(config(
                  "", {"model.name=small_conv", "model.hidden=8", "blocks=2"})),
              IsEmpty());
  EXPECT_THAT(
      left_out(config("model.batch_norm = true\nmodel.activation = 'tanh'\n",
                      {"model.name=small_conv", "model.hidden=8"})),
      ElementsAre(HasSubstr("dropped model.activation (a.toml:7)")));
  EXPECT_THAT(left_out(config("optimizer = {lr = 1, schedule = {name = 'step', "
                              "milestones = [1]}}\n",
                              {"optimizer.schedule.name=constant"})),
              ElementsAre(HasSubstr("optimizer.schedule.milestones")));
}

TEST_F(Swaps, WhatTheNewChoiceKnowsTooStays) {
  const ConfigNode swapped = config(
      "optimizer = {lr = 0.3, weight_decay = 0.1}\n", {"optimizer.name=adam"});
  EXPECT_THAT(left_out(swapped), IsEmpty());
  EXPECT_EQ(value_of(swapped, "optimizer", "lr"), "0.3");
  EXPECT_EQ(value_of(swapped, "optimizer", "weight_decay"), "0.1");
}

TEST_F(Swaps, AnOptionOfTheChoicesOwnLayerIsMeant) {
  for (const auto& overrides :
       {std::vector<std::string>{"optimizer.name=adam",
                                 "optimizer.momentum=0.5"},
        std::vector<std::string>{"optimizer.momentum=0.5",
                                 "optimizer.name=adam"}})
    EXPECT_THAT(error_of(config("optimizer.lr = 0.3\n", overrides)),
                HasSubstr("unknown key 'optimizer.momentum'"));
  EXPECT_THAT(error_of(config(kPredsim, {"boundary.policy=backprop",
                                         "boundary.head.beta=0.5"})),
              HasSubstr("unknown key 'boundary.head'"));
}

TEST_F(Swaps, AnOptionThatComesAfterTheChoiceIsMeant) {
  EXPECT_THAT(error_of(extended("", "optimizer.name = 'adam'\n",
                                {"optimizer.momentum=0.5"})),
              HasSubstr("command line: unknown key 'optimizer.momentum'"));
}

TEST_F(Swaps, TheSameChoiceAgainDropsNothing) {
  EXPECT_THAT(error_of(config("optimizer = {name = 'adam', momentum = 1}\n",
                              {"optimizer.name=adam"})),
              HasSubstr("a.toml:6: unknown key 'optimizer.momentum'"));
  // The default, which no file has.
  EXPECT_THAT(
      error_of(config("optimizer = {beta1 = 0.5}\n", {"optimizer.name=sgd"})),
      HasSubstr("unknown key 'optimizer.beta1'"));
}

TEST_F(Swaps, AMistakeBesideAnotherKindOfChoiceIsStillAnError) {
  EXPECT_THAT(error_of(config("epocs = 3\n", {"engine=threads"})),
              HasSubstr("unknown key 'epocs'"));
  EXPECT_THAT(
      error_of(config("boundary = {reech = 1}\n", {"boundary.codec=bf16"})),
      HasSubstr("unknown key 'boundary.reech'"));
}

TEST_F(Swaps, OneBoundaryCanSwapAlone) {
  const ConfigNode swapped = config(std::string("blocks = 3\n") + kPredsim,
                                    {"boundary.2.head.name=linear"});
  EXPECT_THAT(left_out(swapped),
              ElementsAre(HasSubstr("boundary.2.head.name = \"linear\" "
                                    "(command line) has dropped")));
  EXPECT_EQ(value_of(swapped, "boundary", "head"),
            value_of(config(std::string("blocks = 3\n") + kPredsim, {}),
                     "boundary", "head"));
}

TEST_F(Swaps, ANumberedTableOfTheFormerPolicyLosesThemToo) {
  EXPECT_THAT(
      left_out(config("blocks = 3\n" + std::string(kPredsim) +
                          "[boundary.2]\nrule = 'furthest'\n",
                      {"boundary.policy=backprop"})),
      ElementsAre("boundary.policy = \"backprop\" (command line) has dropped "
                  "boundary.head (a.toml:9), boundary.2.rule (a.toml:11)"));
}

TEST_F(Swaps, ACellOfASweepSwaps) {
  const ConfigNode shared = config(kPredsim, {"optimizer.momentum=0.5"});
  const sweep::Cell cell = {
      .values = {{"boundary.head.name", {.value = std::string("linear")}},
                 {"optimizer.name", {.value = std::string("adam")}}}};
  EXPECT_THAT(left_out(sweep::config_of(shared, cell, 1)),
              testing::UnorderedElementsAre(
                  HasSubstr("boundary.head.name = \"linear\" (sweep) has "
                            "dropped boundary.head.beta"),
                  HasSubstr("optimizer.momentum (command line)")));
}

TEST_F(Swaps, TablesOfAFormerCutAreLeftOut) {
  const std::string four =
      "blocks = 4\n[boundary.3]\npolicy = 'delayed_gradient'\n"
      "[optimizer.4]\nlr = 0.5\n";
  EXPECT_THAT(
      left_out(config(four, {"blocks=2"})),
      ElementsAre("a.toml:7: boundary.3: there is only number 1",
                  "a.toml:9: optimizer.4: there are only numbers 1 to 2"));
  EXPECT_THAT(left_out(config(four, {})), IsEmpty());
  EXPECT_THAT(left_out(config(four, {"blocks=4"})), IsEmpty());
  const sweep::Cell cell = {.values = {{"blocks", {.value = std::int64_t{1}}}}};
  EXPECT_THAT(left_out(sweep::config_of(config(four, {}), cell, 1)),
              ElementsAre(HasSubstr("boundary.3: there is none"),
                          HasSubstr("optimizer.4")));
}

TEST_F(Swaps, TablesThatWereMeantForThisCutAreErrors) {
  const std::string three = "[boundary.3]\npolicy = 'delayed_gradient'\n";
  EXPECT_EQ(error_of(config("blocks = 2\n" + three, {})),
            "a.toml:7: boundary.3: there is only number 1");
  EXPECT_THAT(error_of(config("blocks = 2\n" + three, {"blocks=2"})),
              HasSubstr("boundary.3"));
  EXPECT_THAT(error_of(config(three, {})), HasSubstr("boundary.3"));
  EXPECT_THAT(
      error_of(config("blocks = 4\n",
                      {"boundary.3.policy=delayed_gradient", "blocks=2"})),
      HasSubstr("command line: boundary.3"));
  EXPECT_THAT(error_of(extended("blocks = 4\n", "blocks = 2\n" + three)),
              HasSubstr("b.toml:3: boundary.3"));
}

TEST_F(Swaps, TheLastBoundaryIsMeantInEveryCut) {
  const std::string last = "[boundary.last]\npolicy = 'delayed_gradient'\n";
  for (const int blocks : {2, 3, 4}) {
    const Experiment experiment =
        read_experiment(config(last, {fmt::format("blocks={}", blocks)}), "");
    const Boundaries& boundaries = experiment.phases.front();
    EXPECT_EQ(boundaries.back().name, "delayed_gradient");
    EXPECT_EQ(boundaries.front().name,
              blocks > 2 ? "backprop" : "delayed_gradient");
    EXPECT_THAT(experiment.left_out, IsEmpty());
  }
  EXPECT_THAT(left_out(config(last, {"blocks=1"})), IsEmpty());
  EXPECT_THAT(error_of(config("[boundary.last]\npolicy = 'local_loss'\n"
                              "head.bta = 1\n",
                              {})),
              HasSubstr("unknown key 'boundary.last.head.bta'"));
}

TEST_F(Swaps, AResolvedConfigIsReadWithoutThem) {
  const Experiment swapped =
      read_experiment(config(kPredsim, {"boundary.policy=backprop"}), "");
  const Experiment again = read_experiment(swapped.resolved, "");
  EXPECT_THAT(again.left_out, IsEmpty());
  EXPECT_EQ(again.resolved, swapped.resolved);
}

}  // namespace sluice::swaps_test
