// A run whose loss is NaN or infinite: how it ends, and what is told of it.
#include "experiments/runs/divergence.h"

#include <filesystem>
#include <limits>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/experiments/helpers/faults.h"
#include "tests/experiments/helpers/program.h"

namespace sluice::divergence_test {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Record loss_of(const char* kind, std::int64_t turn, int block, double value,
               const char* name = "loss") {
  Record record;
  record.set("kind", kind);
  record.set("turn", turn);
  record.set("batch", turn);
  if (block > 0) record.set("block", std::int64_t{block});
  record.set(name, value);
  return record;
}

class Guard : public Program {
 protected:
  std::string reason() const {
    const auto found = guard_.found(folder_);
    return found ? found->reason : "";
  }
  void save(const std::string& checkpoint) const {
    fs::create_directories(path(checkpoint));
  }

  DivergenceGuard guard_;
};

TEST_F(Guard, LetsFiniteLossesPass) {
  guard_.write(loss_of("train", 3, 1, 1e30));
  guard_.write(loss_of("evaluation", 3, 0, 2));
  guard_.write(loss_of("probe", 3, 1, kNan, "cosine"));
  EXPECT_FALSE(guard_.found(folder_));
}

TEST_F(Guard, EndsARunAtTheLossOfABlockASynthesizerOrAnEvaluation) {
  EXPECT_THROW(guard_.write(loss_of("train", 3, 2, kInfinity)), UserError);
  EXPECT_THAT(reason(), HasSubstr("the loss of block 2 became inf in turn 3"));
  EXPECT_THROW(guard_.write(loss_of("lesson", 2, 1, kNan, "synthesizer_loss")),
               UserError);
  EXPECT_THAT(reason(), HasSubstr("the synthesizer above block 1 became nan"));
  EXPECT_THROW(guard_.write(loss_of("evaluation", 1, 0, -kInfinity)),
               UserError);
  EXPECT_THAT(reason(), HasSubstr("the test loss became -inf after turn 1"));
}

TEST_F(Guard, TellsTheEarliestWhoeverCameFirst) {
  EXPECT_THROW(guard_.write(loss_of("train", 9, 2, kNan)), UserError);
  EXPECT_THROW(guard_.write(loss_of("train", 9, 1, kNan)), UserError);
  EXPECT_THROW(guard_.write(loss_of("train", 10, 1, kInfinity)), UserError);
  EXPECT_THAT(reason(), HasSubstr("block 1 became nan in turn 9"));
  EXPECT_EQ(guard_.found(folder_)->block, 1);
}

// With log_every = 3 nobody knows which of the turns 7, 8 and 9 it was.
TEST_F(Guard, NamesTheLastCheckpointThatAFiniteLossSpeaksFor) {
  for (const char* name : {"turn-000005", "turn-000006", "turn-000008"})
    save(name);
  guard_.recall(loss_of("train", 6, 1, 0.5));
  EXPECT_THROW(guard_.write(loss_of("train", 9, 1, kNan)), UserError);
  EXPECT_THAT(reason(),
              HasSubstr("checkpoint before is " + path("turn-000006")));
}

TEST_F(Guard, SaysWhenThereIsNone) {
  save("turn-000005");
  EXPECT_THROW(guard_.write(loss_of("train", 9, 1, kNan)), UserError);
  EXPECT_THAT(reason(), HasSubstr("no checkpoint before"));
}

class Divergence : public Program,
                   public testing::WithParamInterface<const char*> {
 protected:
  /// The loss overflows after a few turns.
  std::string config(const std::string& lines = "") const {
    return write("config.toml",
                 config_with("blocks = 2\nmodel = {hidden = [24, 16]}\n"
                             "boundary = {policy = 'local_loss'}\n"
                             "optimizer = {name = 'sgd', lr = 1e12}\n"
                             "checkpoint = {every_turns = 1}\n" +
                             lines));
  }
  Outcome run(const std::string& more) const {
    return sluice(fmt::format("run {} engine={} --dir {} {}", config(),
                              GetParam(), path("run"), more));
  }
};

TEST_P(Divergence, EndsTheRunWithAStatusOfItsOwn) {
  const Outcome outcome = run("");
  EXPECT_EQ(outcome.status, 5) << outcome.text;
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("sluice: diverged: the loss of"),
                                  HasSubstr("checkpoint before"),
                                  HasSubstr("on_nan = 'continue'")));
  EXPECT_FALSE(fs::exists(path("run/done")));
  EXPECT_THAT(slurp(path("run/status.json")), HasSubstr("\"diverged\""));
  const auto told = records_of(path("run"), "diverged");
  ASSERT_EQ(told.size(), 1U);
  EXPECT_GT(told[0].integer("block"), 0);
  EXPECT_THAT(slurp(path("run/metrics.jsonl")),
              testing::ContainsRegex("\"loss\":\"(nan|inf)\""));
}

TEST_P(Divergence, IsTrainedThroughWhereThatIsWanted) {
  const Outcome outcome = run("on_nan=continue");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_TRUE(fs::exists(path("run/done")));
  EXPECT_TRUE(records_of(path("run"), "diverged").empty());
}

INSTANTIATE_TEST_SUITE_P(Engines, Divergence,
                         testing::Values("virtual", "threads", "processes"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

class DivergedRun : public Program {
 protected:
  std::string config(const std::string& lines = "") const {
    return write("config.toml",
                 config_with("model = {hidden = [16]}\noptimizer = {name = "
                             "'sgd', lr = 1e12}\n" +
                             lines));
  }
};

TEST_F(DivergedRun, IsNotBegunAgain) {
  const Outcome outcome = sluice(
      fmt::format("run {} engine=processes on_failure=restart --dir {}",
                  config("checkpoint = {every_turns = 1}\n"), path("run")));
  EXPECT_EQ(outcome.status, 5) << outcome.text;
  EXPECT_TRUE(records_of(path("run"), "restart").empty());
}

TEST_F(DivergedRun, GoesOnWhenItIsResumedAndMayGoOn) {
  const std::string run = path("run");
  EXPECT_EQ(sluice(fmt::format("run {} --dir {}",
                               config("checkpoint = {every_turns = 1}\n"), run))
                .status,
            5);
  const Outcome outcome =
      sluice(fmt::format("run --resume {} on_nan=continue", run));
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_TRUE(records_of(run, "diverged").empty());
}

TEST_F(DivergedRun, IsAFailedOneOfASweepThatIsNotTriedAgain) {
  const Outcome sweep = sluice(
      fmt::format("sweep {} optimizer.lr=0.1,1e12 --on-failure retry --dir {}",
                  config(), path("sweep")));
  EXPECT_EQ(sweep.status, 3) << sweep.text;
  EXPECT_THAT(sweep.text, AllOf(HasSubstr(", seed 1: failed: diverged: "),
                                HasSubstr("1 of 2 runs done, 1 failed"),
                                Not(HasSubstr("tried again"))));
  EXPECT_EQ(sluice("report " + path("sweep")).status, 0);
  EXPECT_THAT(slurp(path("sweep/report.md")), HasSubstr("failed: diverged: "));
}

TEST_F(DivergedRun, IsAFailedOneInAReportToo) {
  EXPECT_EQ(
      sluice(fmt::format("run {} --dir {}", config(), path("run"))).status, 5);
  EXPECT_EQ(sluice("report " + path("run")).status, 0);
  EXPECT_THAT(slurp(path("run/report.md")), HasSubstr("failed: diverged: "));
}

}  // namespace sluice::divergence_test
