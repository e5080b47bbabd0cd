// Cards: runs that are compared with published figures, in parts.
#include "experiments/card/card.h"

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/card/condition.h"
#include "lib/base/error.h"
#include "tests/experiments/helpers/program.h"

namespace sluice::card_test {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

constexpr int kPassed = 0;
constexpr int kWrong = 2;
constexpr int kFailed = 3;
constexpr int kNotAllDone = 4;

TEST(Condition, ComparesTwoRuns) {
  const Condition condition = condition_of("a > b");
  EXPECT_TRUE(condition.holds(2, 1));
  EXPECT_FALSE(condition.holds(1, 1));
}

TEST(Condition, AddsToTheRightSide) {
  const Condition condition = condition_of("a < b - 3");
  EXPECT_TRUE(condition.holds(5, 9));
  EXPECT_FALSE(condition.holds(6, 9));
}

TEST(Condition, ComparesARunWithANumber) {
  const Condition condition = condition_of("a < 2.5");
  EXPECT_EQ(condition.right, "");
  EXPECT_TRUE(condition.holds(2.4, 0));
  EXPECT_FALSE(condition.holds(2.6, 0));
}

TEST(Condition, ConditionOfAFigureThatIsNotANumberNeverHolds) {
  EXPECT_FALSE(condition_of("a < 3").holds(std::nan(""), 0));
  EXPECT_FALSE(condition_of("a > 3").holds(std::nan(""), 0));
}

TEST(Condition, ThatCannotBeReadIsAnError) {
  for (const char* text : {"", "a", "a = b", "a > b * 3", "a > b + c", "a>b"}) {
    EXPECT_THROW(condition_of(text), UserError) << text;
  }
}

/// Two runs of 12 turns, 10 to an epoch, that both classify at random or a
/// little better.
class Cards : public Program {
 protected:
  Cards() {
    write("small.toml",
          config_with("blocks = 2\nevaluate_every = 0\n"
                      "model = {hidden = [16]}\noptimizer = {lr = 0.01}\n"));
  }

  /// `first` and `second`: further keys of the runs.
  std::string card(const std::string& first, const std::string& second,
                   const std::string& conditions = "[]") const {
    return write("card.toml",
                 "card = {title = 'two runs', note = 'drawn', conditions = " +
                     conditions +
                     "}\n"
                     "overrides = {checkpoint = {every_turns = 4}}\n"
                     "[[run]]\nname = 'one'\nconfig = 'small.toml'\n" +
                     first +
                     "\n[[run]]\nname = 'two'\nconfig = 'small.toml'\n"
                     "overrides = {seed = 2}\n" +
                     second + "\n");
  }
  Outcome run(const std::string& card, const std::string& more = "") const {
    return sluice("run " + card + " --dir " + path("out") + " " + more);
  }
  nlohmann::json report() const {
    return nlohmann::json::parse(slurp(path("out/report.json")));
  }
};

TEST_F(Cards, PassesWhereFiguresAreNearAndConditionsHold) {
  const Outcome outcome =
      run(card("published = 50\ntolerance = 50",
               "published = 50\ntolerance = 50", "['one < two + 100']"));
  EXPECT_EQ(outcome.status, kPassed) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("Passed."));
  EXPECT_THAT(slurp(path("out/report.md")), HasSubstr("| one < two + 100"));
  EXPECT_EQ(report()["verdict"], "passed");
  EXPECT_EQ(report()["runs"][0]["state"], "passed");
}

TEST_F(Cards, FailsWhereAFigureIsFar) {
  const Outcome outcome = run(card("published = 500\ntolerance = 5", ""));
  EXPECT_EQ(outcome.status, kFailed) << outcome.text;
  EXPECT_EQ(report()["runs"][0]["state"], "failed");
  EXPECT_EQ(report()["runs"][1]["state"], "run");
}

TEST_F(Cards, FailsWhereAConditionDoesNotHold) {
  const Outcome outcome = run(card("", "", "['one > two + 100']"));
  EXPECT_EQ(outcome.status, kFailed) << outcome.text;
  EXPECT_EQ(report()["conditions"][0]["verdict"], "failed");
}

TEST_F(Cards, TakesTheFigureOfTheLastEvaluation) {
  run(card("measure = 'error'", "measure = 'loss'"));
  const auto last = nlohmann::json::parse([&] {
    std::ifstream file(path("out/one/metrics.jsonl"));
    std::string evaluation;
    for (std::string line; std::getline(file, line);)
      if (line.find("\"evaluation\"") != line.npos) evaluation = line;
    return evaluation;
  }());
  const double error = 100 - 100 * last["accuracy"].get<double>();
  EXPECT_NEAR(report()["runs"][0]["ours"].get<double>(), error, 1e-9);
  const double loss = report()["runs"][1]["ours"].get<double>();
  EXPECT_GT(loss, 0.5);
  EXPECT_LT(loss, 5);
}

TEST_F(Cards, DoneInPartsSkipsWhatIsDone) {
  const std::string file = card("", "");
  const Outcome part = run(file, "--only two");
  EXPECT_EQ(part.status, kNotAllDone) << part.text;
  EXPECT_THAT(part.text, HasSubstr("not run yet"));
  EXPECT_FALSE(fs::exists(path("out/one")));
  const auto written = fs::last_write_time(path("out/two/done"));
  const Outcome rest = run(file);
  EXPECT_EQ(rest.status, kPassed) << rest.text;
  EXPECT_THAT(rest.text, HasSubstr("two: done before"));
  EXPECT_EQ(fs::last_write_time(path("out/two/done")), written);
}

TEST_F(Cards, ContinuesARunThatWasInterrupted) {
  const std::string file = card("", "");
  run(file);
  const double whole = report()["runs"][0]["ours"];
  fs::remove(path("out/one/done"));
  fs::remove_all(path("out/one/checkpoints/turn-000012"));
  const Outcome again = run(file);
  EXPECT_EQ(again.status, kPassed) << again.text;
  EXPECT_THAT(again.text, HasSubstr("one: continues"));
  EXPECT_EQ(report()["runs"][0]["run"]["continued"][0]["turn"], 8);
  EXPECT_EQ(report()["runs"][0]["ours"].get<double>(), whole);
}

// A run that was killed between its last checkpoint and the marker.
TEST_F(Cards, ARunWithAllItsTurnsAndFigureIsDone) {
  const std::string file = card("", "");
  run(file);
  fs::remove(path("out/one/done"));
  EXPECT_THAT(run(file).text, HasSubstr("one: done before"));
}

TEST_F(Cards, StartsARunAnewThatHasNoCheckpoint) {
  const std::string file = card("", "");
  run(file, "--only one");
  fs::remove(path("out/one/done"));
  fs::remove_all(path("out/one/checkpoints"));
  EXPECT_THAT(run(file, "--only one").text, HasSubstr("one: starts"));
  EXPECT_TRUE(fs::exists(path("out/one/done")));
}

TEST_F(Cards, StopsCleanlyAtASignalAndGoesOn) {
  const std::string file =
      card("overrides = {turns = 1500, checkpoint = {every_turns = 100}}", "");
  const std::string log = path("log");
  const std::string command =
      std::string(SLUICE_PROGRAM) + " run " + file + " --dir " + path("out");
  // The shell tells the number of the process that it becomes.
  const std::string pid = path("pid");
  std::thread program([&] {
    std::system(("sh -c 'echo $$ > " + pid + "; exec " + command + "' > " +
                 log + " 2>&1; echo \"status $?\" >> " + log)
                    .c_str());
  });
  while (!fs::exists(path("out/one/checkpoints")))
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ::kill(std::stoi(slurp(pid)), SIGINT);
  program.join();
  EXPECT_THAT(slurp(log), HasSubstr("status 4"));
  EXPECT_THAT(slurp(log), HasSubstr("not finished yet"));
  EXPECT_THAT(run(file).text, HasSubstr("one: continues"));
  EXPECT_EQ(report()["verdict"], "passed");
}

TEST_F(Cards, EngineAndPathsAreNotTheRunsNumbers) {
  const std::string file = card("published = 50\ntolerance = 50", "");
  run(file);
  const Outcome other = run(file, "engine=threads log_every=3 name=x");
  EXPECT_EQ(other.status, kPassed) << other.text;
  EXPECT_THAT(other.text, HasSubstr("one: done before"));
}

TEST_F(Cards, WithOverridesThatChangeNumbersNothingPasses) {
  const Outcome trial =
      run(card("published = 50\ntolerance = 50", ""), "turns=2");
  EXPECT_EQ(trial.status, kNotAllDone) << trial.text;
  EXPECT_THAT(trial.text, HasSubstr("A trial"));
  EXPECT_EQ(report()["runs"][0]["state"], "trial");
  EXPECT_EQ(report()["trial"], true);
}

TEST_F(Cards, RefusesAFolderWithAnotherConfig) {
  const std::string file = card("", "");
  run(file);
  const Outcome other = run(file, "optimizer.lr=0.02");
  EXPECT_EQ(other.status, kWrong);
  EXPECT_THAT(other.text, HasSubstr("optimizer.1.lr is 0.01, not 0.02"));
  EXPECT_EQ(run(file, "optimizer.lr=0.02 --overwrite").status, kNotAllDone);
}

TEST_F(Cards, NamesItsRunsWhereOnlyNamesAnother) {
  const Outcome outcome = run(card("", ""), "--only on");
  EXPECT_EQ(outcome.status, kWrong);
  EXPECT_THAT(outcome.text, HasSubstr("no run has the name 'on' (did you mean "
                                      "'one'?); there are: one, two"));
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(Cards, AcceptsARunOfAProgramThatHadFewerKeys) {
  const std::string file = card("", "");
  run(file);
  std::string config = slurp(path("out/one/config.toml"));
  const std::string line = "\nslack = 2";
  config.replace(config.find(line), line.size(), "");
  const std::string drain = "\ndrain = true";
  config.replace(config.find(drain), drain.size(), "");
  // Without dropout no number depends on it.
  const std::string masks = "\nmasks = 2";
  config.replace(config.find(masks), masks.size(), "");
  write("out/one/config.toml", config);
  EXPECT_THAT(run(file).text, HasSubstr("one: done before"));
}

TEST_F(Cards, RefusesARunThatDrewOtherMasks) {
  const std::string file =
      card("overrides = {model = {hidden = [16], dropout = 0.5}}", "");
  run(file);
  std::string config = slurp(path("out/one/config.toml"));
  const std::string masks = "\nmasks = 2";
  config.replace(config.find(masks), masks.size(), "");
  write("out/one/config.toml", config);
  const Outcome again = run(file);
  EXPECT_EQ(again.status, kWrong);
  EXPECT_THAT(again.text, HasSubstr("masks is 1, not 2"));
  EXPECT_EQ(run(file, "masks=1 --only one").status, kNotAllDone);
}

struct BadCard {
  const char* name;
  const char* text;
  const char* says;
};

class BadCards : public Program, public testing::WithParamInterface<BadCard> {};

TEST_P(BadCards, AreErrorsThatNameTheKey) {
  write("small.toml", config_with(""));
  const std::string card = write("card.toml", GetParam().text);
  const Outcome outcome = sluice("run " + card + " --dir " + path("out"));
  EXPECT_EQ(outcome.status, kWrong);
  EXPECT_THAT(outcome.text, HasSubstr(GetParam().says));
  EXPECT_FALSE(fs::exists(path("out")));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, BadCards,
    testing::Values(
        BadCard{"NoRuns", "[card]\ntitle = 'x'", "at least one [[run]]"},
        BadCard{"UnknownKey", "[card]\ntitel = 'x'", "did you mean 'title'"},
        BadCard{"NoConfig", "[card]\n[[run]]\nname = 'a'",
                "run[0].config: a run needs a config"},
        BadCard{"NoSuchConfig",
                "[card]\n[[run]]\nname = 'a'\nconfig = 'none.toml'",
                "there is no file"},
        BadCard{"NoName", "[card]\n[[run]]\nconfig = 'small.toml'",
                "run[0].name"},
        BadCard{"SameName",
                "[card]\n[[run]]\nname = 'a'\nconfig = 'small.toml'\n"
                "[[run]]\nname = 'a'\nconfig = 'small.toml'",
                "run[1].name: two runs"},
        BadCard{"UnknownMeasure",
                "[card]\n[[run]]\nname = 'a'\nconfig = 'small.toml'\n"
                "measure = 'speed'",
                "run[0].measure"},
        BadCard{"ToleranceAlone",
                "[card]\n[[run]]\nname = 'a'\nconfig = 'small.toml'\n"
                "tolerance = 1",
                "run[0].tolerance"},
        BadCard{"OverridesThatAreNoTable",
                "[card]\n[[run]]\nname = 'a'\nconfig = 'small.toml'\n"
                "overrides = 3",
                "run[0].overrides: expected a table"},
        BadCard{"ConditionOnNoRun",
                "[card]\nconditions = ['ab > 3']\n[[run]]\nname = 'a'\n"
                "config = 'small.toml'",
                "card.conditions: no run has the name 'ab'"},
        BadCard{"ConditionThatIsNone",
                "[card]\nconditions = ['a is good']\n[[run]]\nname = 'a'\n"
                "config = 'small.toml'",
                "card.conditions: 'a is good' is no condition"},
        BadCard{"BadOverride",
                "[card]\n[[run]]\nname = 'a'\nconfig = 'small.toml'\n"
                "overrides = {batchsize = 3}",
                "did you mean 'batch_size'"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(CardsOfTheRepository, CanBeRead) {
  const fs::path folder =
      fs::path(SLUICE_TEST_FOLDER) / "../experiments/configs/cards";
  int cards = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".toml") continue;
    EXPECT_NO_THROW(read_card(entry.path().string())) << entry.path();
    ++cards;
  }
  EXPECT_GE(cards, 4);
}

}  // namespace sluice::card_test
