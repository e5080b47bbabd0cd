// A run whose loss is NaN or infinite: how it ends, and what is reported of it.
#include "experiments/runs/sinks/divergence.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/checkpoints/checkpoint.h"
#include "lib/checkpoints/safetensors.h"
#include "lib/checkpoints/set_aside.h"
#include "tests/experiments/data/packed_test_files.h"
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

// With log_every = 3 it may have been any of the turns 7, 8 and 9.
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

TEST_F(Guard, TellsOfACheckpointWhoseLossesWereNotLogged) {
  save("turn-000004");
  EXPECT_THROW(guard_.checkpoint_not_finite(8, "tensor 'a' of block-1"),
               UserError);
  EXPECT_THAT(
      reason(),
      AllOf(HasSubstr("tensor 'a' of block-1 isn't finite after turn 8"),
            HasSubstr("checkpoint before is " + path("turn-000004")),
            HasSubstr("Lower optimizer.lr")));
}

TEST_F(Guard, NamesTheSampleInsteadOfTheRateWhereItExplainsTheLoss) {
  guard_.recall(loss_of("train", 4, 1, 0.5));
  EXPECT_THROW(guard_.write(loss_of("train", 6, 1, kNan)), UserError);
  SuspectTurns asked;
  const auto found = guard_.found(folder_, [&](const SuspectTurns& turns) {
    asked = turns;
    return std::string("the input of sample 7 of a.npy");
  });
  EXPECT_EQ(asked.first, 4);
  EXPECT_EQ(asked.last, 6);
  EXPECT_FALSE(asked.evaluated);
  EXPECT_THAT(found->reason,
              AllOf(HasSubstr("the input of sample 7 of a.npy is NaN"),
                    Not(HasSubstr("Lower optimizer.lr"))));
}

/// A loss that is logged once in the run, and checkpoints on the way.
class SilentDivergence : public Program {
 protected:
  std::string config(const std::string& lines = "") const {
    return write("config.toml",
                 config_with("blocks = 2\nmodel = {hidden = [24, 16]}\n"
                             "optimizer = {name = 'sgd', lr = 1e12}\n"
                             "log_every = 1000\nevaluate_every = 0\n"
                             "checkpoint = {every_turns = 2, keep = 1, "
                             "initial = true}\n" +
                             lines));
  }
  Outcome run(const std::string& more) const {
    return sluice(
        fmt::format("run {} --dir {} {}", config(), path("run"), more));
  }
  /// As programs before this one saved it.
  void spoil(const std::string& checkpoint) const {
    const std::string file =
        path("run/checkpoints/" + checkpoint + "/block-1.safetensors");
    NamedTensors tensors = read_safetensors(file);
    for (auto& [name, tensor] : tensors) tensor.fill_(kNan);
    write_safetensors(file, tensors);
  }
};

TEST_F(SilentDivergence, EndsAtTheFirstCheckpointThatIsntFinite) {
  for (const char* engine : {"virtual", "processes"}) {
    const Outcome outcome = run(fmt::format("--overwrite engine={}", engine));
    EXPECT_EQ(outcome.status, 5) << outcome.text;
    EXPECT_THAT(outcome.text, AllOf(HasSubstr("diverged: "),
                                    HasSubstr("isn't finite after turn"),
                                    HasSubstr("checkpoint before is")));
  }
  for (const auto& [turn, folder] : find_checkpoints(path("run/checkpoints")))
    EXPECT_EQ(find_not_finite(folder), "");
  EXPECT_TRUE(find_set_aside(path("run/checkpoints")));
}

TEST_F(SilentDivergence, LeavesTheSoundCheckpointWhereItMayGoOn) {
  const Outcome outcome = run("on_nan=continue");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("the checkpoint is set aside as"));
  ASSERT_FALSE(find_checkpoints(path("run/checkpoints")).empty());
  for (const char* command : {"eval", "export"}) {
    const Outcome told = sluice(fmt::format("{} {}", command, path("run")));
    EXPECT_EQ(told.status, 5) << told.text;
    EXPECT_THAT(told.text, AllOf(HasSubstr("NaN or infinite"),
                                 HasSubstr("the last finite checkpoint")));
  }
  EXPECT_FALSE(fs::exists(path("run/model.safetensors")));
}

TEST_F(SilentDivergence, OlderRunGoesOnFromItsLastSoundCheckpoint) {
  ASSERT_EQ(run("optimizer.lr=0.01 checkpoint.keep=0").status, 0);
  spoil("turn-000012");
  spoil("turn-000010");
  for (const char* command : {"eval", "export"}) {
    const Outcome told = sluice(fmt::format("{} {}", command, path("run")));
    EXPECT_EQ(told.status, 5) << told.text;
    EXPECT_THAT(told.text, AllOf(HasSubstr("NaN or infinite values"),
                                 HasSubstr("turn-000008")));
  }
  const Outcome resumed = sluice("run --resume " + path("run"));
  EXPECT_EQ(resumed.status, 0) << resumed.text;
  EXPECT_THAT(resumed.text,
              AllOf(HasSubstr("turn-000012"), HasSubstr("set aside as"),
                    HasSubstr("turn-000008, which is finite")));
  EXPECT_EQ(sluice("eval " + path("run")).status, 0);
}

TEST_F(SilentDivergence, RunWithoutASoundCheckpointIsNotContinued) {
  ASSERT_EQ(run("optimizer.lr=0.01 checkpoint.initial=false "
                "checkpoint.every_turns=0 checkpoint.keep=0")
                .status,
            0);
  spoil("turn-000012");
  const Outcome resumed = sluice("run --resume " + path("run") + " turns=20");
  EXPECT_EQ(resumed.status, 2) << resumed.text;
  EXPECT_THAT(resumed.text, HasSubstr("none of its checkpoints is finite"));
}

/// Inputs [240, 8] of numbers, of which one may be NaN.
class BadSamples : public Program {
 protected:
  void write_numbers(const std::string& name, std::int64_t bad_row) const {
    std::vector<float> numbers(240 * 8, 0.5F);
    if (bad_row >= 0) numbers[static_cast<std::size_t>(bad_row * 8 + 3)] = NAN;
    const Bytes file = npy_of("<f4", "(240, 8)", bytes_of_numbers(numbers));
    std::ofstream(path(name), std::ios::binary)
        .write(reinterpret_cast<const char*>(file.data()),
               static_cast<std::streamsize>(file.size()));
  }
  Outcome run(std::int64_t bad_training_row, std::int64_t bad_test_row,
              const std::string& more = "") const {
    write_numbers("train.npy", bad_training_row);
    write_numbers("test.npy", bad_test_row);
    std::vector<std::int64_t> labels(240);
    for (std::size_t i = 0; i < labels.size(); ++i)
      labels[i] = static_cast<std::int64_t>(i % 4);
    const Bytes file = npy_of("<i8", "(240,)", bytes_of_numbers(labels));
    std::ofstream(path("labels.npy"), std::ios::binary)
        .write(reinterpret_cast<const char*>(file.data()),
               static_cast<std::streamsize>(file.size()));
    write("config.toml",
          fmt::format("turns = 12\nbatch_size = 24\nthreads = 1\n"
                      "blocks = 2\nmodel = {{hidden = [8]}}\n"
                      "data = {{name = 'tensors', root = '{}', train = "
                      "['train.npy', 'labels.npy'], test = ['test.npy', "
                      "'labels.npy']}}\n",
                      folder_));
    return sluice(fmt::format("run {} --dir {} --overwrite {}",
                              path("config.toml"), path("run"), more));
  }
};

TEST_F(BadSamples, AreNamedWithTheirFileAndNotTheRate) {
  for (const char* more :
       {"", "engine=processes log_every=7", "replicas.count=2",
        "log_every=100 checkpoint.every_turns=12 evaluate_every=0"}) {
    const Outcome outcome = run(137, -1, more);
    EXPECT_EQ(outcome.status, 5) << more << outcome.text;
    EXPECT_THAT(outcome.text, AllOf(HasSubstr("the input of sample 137 of " +
                                              path("train.npy")),
                                    Not(HasSubstr("Lower optimizer.lr"))))
        << more;
  }
}

TEST_F(BadSamples, AreNamedWhereOnlyEvaluationsSeeThem) {
  const Outcome outcome = run(-1, 9);
  EXPECT_EQ(outcome.status, 5) << outcome.text;
  EXPECT_THAT(outcome.text,
              HasSubstr("the input of sample 9 of " + path("test.npy")));
  const Outcome eval = sluice("eval " + path("run"));
  EXPECT_NE(eval.status, 0) << eval.text;
}

}  // namespace sluice::divergence_test
