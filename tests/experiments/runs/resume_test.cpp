// A run that is continued ends with the bits of one that was not interrupted.
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/checkpoints/checkpoint.h"
#include "lib/checkpoints/safetensors.h"
#include "lib/metrics/record.h"
#include "tests/experiments/helpers/program.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::resume_test {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr const char* kConfig =
    "blocks = 2\nevaluate_every = 0.5\n"
    "model = {hidden = [48, 40], dropout = 0.2, batch_norm = true}\n"
    "boundary = {policy = 'local_loss', head = {name = 'predsim'}}\n"
    "optimizer = {name = 'adam', lr = 0.01, schedule = {warmup_epochs = 1}}\n";

std::string checkpoint_of(const std::string& dir, std::int64_t turn) {
  return checkpoint_folder(dir + "/checkpoints", turn);
}

/// The records of the run but for times and rates.
std::vector<std::string> figures_of(const std::string& dir) {
  std::vector<std::string> lines;
  std::ifstream file(dir + "/metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    Record record = record_from_json(line);
    if (record.text("kind") == "block" || record.text("kind") == "summary")
      continue;
    record.set("time", 0.0);
    lines.push_back(to_json(record));
  }
  std::sort(lines.begin(), lines.end());  // blocks write side by side
  return lines;
}

class Resume : public Program, public testing::WithParamInterface<const char*> {
 protected:
  /// Runs the config, with `more` on the command line, in the folder `dir`.
  std::string run(const std::string& dir, const std::string& more) {
    const std::string config = write("config.toml", config_with(kConfig));
    const Outcome outcome = sluice("run " + config + " engine=" + engine_ +
                                   " --dir " + path(dir) + " " + more);
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    return path(dir);
  }
  std::string engine_ = "virtual";
};

TEST_P(Resume, InTheMiddleOfAnEpochGivesTheBitsOfTheUninterruptedRun) {
  engine_ = GetParam();
  const std::string whole = run("whole", "");
  const std::string part = run("part", "turns=7");
  const Outcome resumed = sluice("run --resume " + part + " turns=12");
  EXPECT_EQ(resumed.status, 0) << resumed.text;
  const std::string left = checkpoint_of(whole, 12);
  const std::string right = checkpoint_of(part, 12);
  EXPECT_EQ(difference(load_weights(left), load_weights(right)), "");
  EXPECT_EQ(difference(load_state(left), load_state(right)), "");
  EXPECT_TRUE(fs::exists(part + "/done"));
}

TEST_P(Resume, AfterAKillForgetsWhatCameAfterTheCheckpoint) {
  engine_ = GetParam();
  const std::string whole = run("whole", "");
  const std::string killed = run("killed", "checkpoint.every_turns=5");
  // As a kill in turn 12 leaves it: no end, and half a line.
  fs::remove(killed + "/done");
  fs::remove_all(checkpoint_of(killed, 12));
  std::ofstream(killed + "/metrics.jsonl", std::ios::app) << "{\"kind\":\"tr";
  const Outcome resumed = sluice("run --resume " + killed);
  EXPECT_EQ(resumed.status, 0) << resumed.text;
  EXPECT_EQ(difference(load_weights(checkpoint_of(whole, 12)),
                       load_weights(checkpoint_of(killed, 12))),
            "");
  EXPECT_EQ(figures_of(whole), figures_of(killed));
}

TEST_P(Resume, InALaterPhaseForgetsTheHashesOfTheFormerEnd) {
  engine_ = GetParam();
  const std::string later =
      "hashes=true checkpoint.every_turns=5 "
      "'timetable=[{turn=3, boundary={policy=\"delayed_gradient\"}}]'";
  const std::string whole = run("whole", later);
  const std::string cut = run("cut", later);
  fs::remove(cut + "/done");
  fs::remove_all(checkpoint_of(cut, 12));
  const Outcome resumed = sluice("run --resume " + cut);
  EXPECT_EQ(resumed.status, 0) << resumed.text;
  EXPECT_EQ(figures_of(whole), figures_of(cut));
}

INSTANTIATE_TEST_SUITE_P(Engines, Resume,
                         testing::Values("virtual", "processes"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

/// What its config says of masks is removed: a run of a program that didn't
/// know the key.
void make_old(const std::string& dir) {
  std::string config = slurp(dir + "/config.toml");
  const std::string line = "\nmasks = 1";
  ASSERT_NE(config.find(line), config.npos) << config;
  config.replace(config.find(line), line.size(), "");
  std::ofstream(dir + "/config.toml") << config;
}

TEST_P(Resume, ResumeOfARunThatKnewNoMasksGoesOnWithItsOwn) {
  engine_ = GetParam();
  const std::string whole = run("whole", "masks=1");
  const std::string part = run("part", "turns=7 masks=1");
  make_old(part);
  const Outcome resumed = sluice("run --resume " + part + " turns=12");
  EXPECT_EQ(resumed.status, 0) << resumed.text;
  EXPECT_EQ(difference(load_weights(checkpoint_of(whole, 12)),
                       load_weights(checkpoint_of(part, 12))),
            "");
  EXPECT_THAT(slurp(part + "/config.toml"), HasSubstr("\nmasks = 1\n"));
}

TEST_F(Resume, TheConfigOfARunThatKnewNoMasksRepeatsIt) {
  const std::string old = run("old", "masks=1");
  const std::string newer = run("newer", "");
  make_old(old);
  const Outcome again =
      sluice("run " + old + "/config.toml --dir " + path("again"));
  EXPECT_EQ(again.status, 0) << again.text;
  const auto weights_of = [](const std::string& dir) {
    return load_weights(checkpoint_of(dir, 12));
  };
  EXPECT_EQ(difference(weights_of(old), weights_of(path("again"))), "");
  EXPECT_NE(difference(weights_of(old), weights_of(newer)), "");
}

/// Methods that have batches in flight when a checkpoint is written.
const char* const kDelaying[] = {
    "boundary.policy=delayed_gradient boundary.weights=stash",
    "boundary.policy=delayed_gradient boundary.weights=recompute",
    "boundary.policy=delayed_gradient boundary.weights=mixed",
    "boundary.policy=delayed_gradient boundary.weights=vertical_sync",
    "boundary.policy=delayed_gradient boundary.weights=extrapolate",
    "boundary.policy=features_replay boundary.statistics=both",
    "boundary.policy=fully_decoupled boundary.beta=0.5 slack=0",
    "boundary.policy=fully_decoupled boundary.order=A boundary.weights=rebuilt "
    "boundary.statistics=replay model.name=revnet model.width=4 "
    "'model.blocks=[4]' 'blocks=[\"0-1\",\"2-3\",\"4-\"]'",
    "boundary.policy=delayed_gradient precision=bf16",
    "boundary.policy=delayed_gradient boundary.codec=int8",
    "boundary.policy=fully_decoupled boundary.order=A accumulate.batches=3",
    "boundary.policy=backprop 'delay={turns=[3,2,2],weights=\"mixed\"}'",
    "boundary.policy=local_loss delay.turns=2",
    "boundary.policy=synthetic_gradient boundary.target_delay=1 "
    "boundary.synthesizer.hidden=1",
    "boundary.policy=synthetic_gradient boundary.target_delay=1 "
    "boundary.synthesizer.hidden=1 boundary.unlock.hidden=1 "
    "boundary.unlock.width=16",
    "'boundary={policy=\"blend\",sources=[{policy=\"delayed_gradient\","
    "weight=0.5},{policy=\"synthetic_gradient\",weight=0.5,lam_target=0.25}]}'",
};

class ResumeInFlight : public Resume {
 protected:
  std::string run_delaying(const std::string& dir, const std::string& more) {
    const std::string config = write("delaying.toml", config_with(kDelayed));
    const Outcome outcome = sluice("run " + config + " engine=" + engine_ +
                                   " --dir " + path(dir) + " " + more);
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    return path(dir);
  }
  static constexpr const char* kDelayed =
      "blocks = 3\nevaluate_every = 0.5\n"
      "model = {hidden = [48, 40, 32], dropout = 0.2, batch_norm = true}\n"
      "optimizer = {name = 'adam', lr = 0.01}\n";
};

TEST_P(ResumeInFlight, X8_GivesTheBitsOfTheUninterruptedRun) {
  engine_ = GetParam();
  int number = 0;
  for (const std::string method : kDelaying) {
    const std::string name = std::to_string(number++);
    const std::string whole = run_delaying("whole" + name, method);
    const std::string part =
        run_delaying("part" + name, "turns=7 drain=false " + method);
    const Outcome resumed =
        sluice("run --resume " + part + " turns=12 drain=true");
    EXPECT_EQ(resumed.status, 0) << resumed.text;
    EXPECT_EQ(difference(load_weights(checkpoint_of(whole, 12)),
                         load_weights(checkpoint_of(part, 12))),
              "")
        << method;
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, ResumeInFlight,
                         testing::Values("virtual", "processes"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

/// The average of a run that nothing interrupted began anew with each phase.
TEST_F(ResumeInFlight, BeforeAPhaseGoesOnWithTheAverageOfTheWeights) {
  engine_ = "virtual";
  const std::string more =
      "optimizer.average=0.5 'timetable=[{turn = 8, boundary = {policy = "
      "\"local_loss\"}}]' ";
  const std::string whole = run_delaying("whole", more);
  const std::string part = run_delaying("part", more + "turns=7 drain=false");
  const Outcome resumed =
      sluice("run --resume " + part + " turns=12 drain=true");
  EXPECT_EQ(resumed.status, 0) << resumed.text;
  EXPECT_EQ(difference(load_weights(checkpoint_of(whole, 12)),
                       load_weights(checkpoint_of(part, 12))),
            "");
}

/// A run that stops and goes on makes other choices than one that doesn't:
/// while blocks save, gradients arrive. Its record says which.
TEST_F(ResumeInFlight, RunningFreeHasTheBitsOfItsWholeRecord) {
  int number = 0;
  for (const auto& [engine, how] :
       {std::pair("virtual",
                  "boundary.policy=delayed_gradient 'virtual.forward=[0.01]' "
                  "'virtual.slow=[\"2x3\"]'"),
        std::pair("threads",
                  "boundary.policy=delayed_gradient accumulate.batches=3"),
        std::pair("virtual",
                  "boundary.policy=delayed_gradient "
                  "boundary.weights=mixed"),
        std::pair("threads", "boundary.policy=synthetic_gradient"),
        std::pair("processes",
                  "boundary.policy=features_replay "
                  "boundary.statistics=forward")}) {
    engine_ = engine;
    const std::string part = run_delaying(
        "part" + std::to_string(number++),
        std::string("schedule=free in_flight=4 turns=5 drain=false ") + how);
    for (const char* more : {"turns=8", "turns=12 drain=true", "turns=14"}) {
      const Outcome resumed = sluice("run --resume " + part + " " + more);
      EXPECT_EQ(resumed.status, 0) << resumed.text;
    }
    const Outcome replayed = sluice("replay " + part);
    EXPECT_EQ(replayed.status, 0) << engine << how << "\n" << replayed.text;
    EXPECT_THAT(replayed.text, HasSubstr("    14  "));
  }
}

TEST_F(ResumeInFlight, InAnotherScheduleIsRefused) {
  const std::string delayed =
      "boundary.policy=delayed_gradient turns=7 drain=false ";
  const std::string lockstep = run_delaying("lockstep", delayed);
  Outcome resumed =
      sluice("run --resume " + lockstep + " turns=12 schedule=free");
  EXPECT_EQ(resumed.status, 2);
  EXPECT_THAT(resumed.text, HasSubstr("isn't the record"));
  const std::string free =
      run_delaying("free", delayed + "schedule=free in_flight=3");
  resumed = sluice("run --resume " + free +
                   " turns=12 schedule=lockstep in_flight=0");
  EXPECT_EQ(resumed.status, 2);
  EXPECT_THAT(resumed.text, HasSubstr("in flight"));
}

TEST_F(ResumeInFlight, InAnyPhaseOfATimetableGivesTheSameBits) {
  const std::string config = write(
      "timetable.toml",
      config_with(
          std::string(kDelayed) +
          "boundary = {policy = 'delayed_gradient'}\n"
          "timetable = [{turn = 4, boundary = {policy = 'local_loss'}}, "
          "{accuracy = 0.01, boundary = {policy = 'fully_decoupled'}}]\n"));
  const auto run = [&](const std::string& dir, const std::string& more) {
    const Outcome outcome =
        sluice("run " + config + " --dir " + path(dir) + " " + more);
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    return path(dir);
  };
  const std::string whole = run("whole", "");
  for (const int turn : {3, 4, 5, 6, 9}) {
    const std::string part = run("part" + std::to_string(turn),
                                 "drain=false turns=" + std::to_string(turn));
    const Outcome resumed =
        sluice("run --resume " + part + " turns=12 drain=true");
    EXPECT_EQ(resumed.status, 0) << resumed.text;
    EXPECT_EQ(difference(load_weights(checkpoint_of(whole, 12)),
                         load_weights(checkpoint_of(part, 12))),
              "")
        << "from turn " << turn;
    EXPECT_EQ(difference(load_state(checkpoint_of(whole, 12)),
                         load_state(checkpoint_of(part, 12))),
              "")
        << "from turn " << turn;
  }
}

TEST_F(ResumeInFlight, ResumeInFlightOfADrainedRunBeginsWithAnEmptyPipe) {
  const std::string part = run_delaying("part", kDelaying[0]);
  const Outcome resumed = sluice("run --resume " + part + " turns=20");
  EXPECT_EQ(resumed.status, 0) << resumed.text;
  std::map<std::int64_t, std::vector<std::int64_t>> applied;
  std::ifstream file(part + "/metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    const Record record = record_from_json(line);
    if (record.text("kind") == "train")
      applied[static_cast<std::int64_t>(record.number("block", 0))].push_back(
          static_cast<std::int64_t>(record.number("batch", -1)));
  }
  std::vector<std::int64_t> all(20);
  std::iota(all.begin(), all.end(), 0);
  for (const auto& [block, batches] : applied)
    EXPECT_EQ(batches, all) << "block " << block;
  EXPECT_EQ(applied.size(), 3U);
}

TEST_F(ResumeInFlight, ResumeInFlightOfADrainedRunMayHaveAnotherPolicy) {
  const std::string part = run_delaying("part", kDelaying[0]);
  const Outcome resumed = sluice("run --resume " + part +
                                 " turns=20 'boundary.1={policy=\"backprop\"}'"
                                 " 'boundary.2={policy=\"backprop\"}'");
  EXPECT_EQ(resumed.status, 0) << resumed.text;
}

TEST_F(ResumeInFlight, AWindowOfAccumulationSurvivesTwoInterruptions) {
  const std::string method =
      "boundary.policy=fully_decoupled accumulate.batches=4 ";
  const std::string whole = run_delaying("whole", method + "turns=10");
  Outcome resumed = sluice("run --resume " + whole + " turns=20");
  EXPECT_EQ(resumed.status, 0) << resumed.text;
  const std::string part = run_delaying("part", method + "turns=10");
  resumed = sluice("run --resume " + part + " turns=17 drain=false");
  EXPECT_EQ(resumed.status, 0) << resumed.text;
  resumed = sluice("run --resume " + part + " turns=20 drain=true");
  EXPECT_EQ(resumed.status, 0) << resumed.text;
  EXPECT_EQ(difference(load_weights(checkpoint_of(whole, 20)),
                       load_weights(checkpoint_of(part, 20))),
            "");
}

TEST_F(ResumeInFlight, UnderAnotherCutOrPolicyIsRefused) {
  const std::string part =
      run_delaying("part", std::string("turns=7 drain=false ") + kDelaying[0]);
  for (const char* other :
       {"blocks=[\"0-1\",\"2\",\"3-\"]", "boundary.1.weights=recompute"}) {
    const Outcome outcome =
        sluice("run --resume " + part + " turns=12 '" + other + "'");
    EXPECT_EQ(outcome.status, 2) << other;
    EXPECT_THAT(outcome.text, HasSubstr("in flight")) << other;
  }
}

TEST_F(Resume, WithoutTheOptimizersStateWouldGiveOtherBits) {
  const std::string whole = run("whole", "");
  const std::string part = run("part", "turns=7");
  const std::string rest =
      run("rest", "initial_weights=" + checkpoint_of(part, 7));
  EXPECT_NE(difference(load_weights(checkpoint_of(whole, 12)),
                       load_weights(checkpoint_of(rest, 12))),
            "");
}

TEST_F(Resume, ResumeOfACompleteRunIsRefused) {
  const std::string whole = run("whole", "");
  const Outcome outcome = sluice("run --resume " + whole);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.text, HasSubstr("all its 12 turns are done"));
  EXPECT_TRUE(fs::exists(whole + "/done"));
}

TEST_F(Resume, WithAnotherModelIsRefusedAndLosesNothing) {
  const std::string part = run("part", "turns=7");
  const std::string before = slurp(part + "/metrics.jsonl");
  const Outcome outcome =
      sluice("run --resume " + part + " turns=12 model.hidden=[48,41]");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.text, HasSubstr("model.hidden: is [48, 41]"));
  EXPECT_EQ(slurp(part + "/metrics.jsonl"), before);
  EXPECT_TRUE(fs::exists(part + "/done"));
}

/// The checkpoint lacks the weights of a synthesizer, a head's, an optimizer's
/// state.
TEST_F(Resume, WithSourcesThatTheCheckpointLacksIsRefusedAndLosesNothing) {
  const std::string part = run("part", "turns=7");
  const std::string before = slurp(part + "/run.json");
  for (const auto& [other, missing] :
       {std::pair("boundary.1={policy='synthetic_gradient'}", "synthesizers."),
        std::pair("boundary.1.head={name='mlp_sr'}", "heads."),
        std::pair("optimizer.1={name='sgd', momentum=0.9}", "momentum")}) {
    const Outcome outcome =
        sluice("run --resume " + part + " turns=12 \"" + other + "\"");
    EXPECT_EQ(outcome.status, 2) << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr(missing));
    EXPECT_EQ(slurp(part + "/run.json"), before);
    EXPECT_TRUE(fs::exists(part + "/done"));
  }
}

TEST_F(Resume, ByInitialWeightsStartsFromAFileOfAnotherProgram) {
  const std::string first = run("first", "turns=0 checkpoint.initial=true");
  NamedTensors weights;
  for (const auto& [name, tensor] : load_weights(checkpoint_of(first, 0)))
    if (name.starts_with("layers.")) weights.emplace_back(name, tensor + 1);
  write_safetensors(path("theirs.safetensors"), weights);
  const std::string started =
      run("started", "turns=0 checkpoint.initial=true initial_weights=" +
                         path("theirs.safetensors"));
  NamedTensors taken;
  for (auto& named : load_weights(checkpoint_of(started, 0)))
    if (named.first.starts_with("layers.")) taken.push_back(std::move(named));
  EXPECT_EQ(difference(weights, taken), "");
}

TEST_F(Resume, RefusesInitialWeightsThatLackATensorBeforeItWrites) {
  write_safetensors(path("theirs.safetensors"), {{"0.weight", at::ones({2})}});
  const std::string config = write("config.toml", config_with(kConfig));
  const Outcome outcome =
      sluice("run " + config + " --dir " + path("run") +
             " initial_weights=" + path("theirs.safetensors"));
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.text,
              HasSubstr("has no tensor 'layers.0.linear.weight'"));
  EXPECT_FALSE(fs::exists(path("run")));
}

TEST_F(Resume, StopsEarlyWhenNothingGetsBetter) {
  const std::string dir =
      run("early", "epochs=50 turns=0 optimizer.lr=0 early_stop.patience=2");
  // Evaluations at turns 5, 10, 15: the first is the best for ever.
  EXPECT_TRUE(fs::exists(checkpoint_of(dir, 15)));
  EXPECT_TRUE(fs::exists(dir + "/done"));
}

TEST_F(Resume, EvaluatesTheBestCheckpointWithAnyCut) {
  const std::string dir = run("best", "checkpoint.best=accuracy");
  const Outcome whole = sluice("eval " + dir);
  EXPECT_EQ(whole.status, 0) << whole.text;
  EXPECT_THAT(whole.text, HasSubstr("checkpoints/best"));
  double best = 0;
  std::ifstream file(dir + "/metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    const Record record = record_from_json(line);
    if (record.text("kind") == "evaluation")
      best = std::max(best, record.number("accuracy", 0));
  }
  EXPECT_THAT(whole.text,
              HasSubstr(fmt::format("accuracy {:.2f} % of 40", 100 * best)));
  const Outcome single =
      sluice("eval " + fs::canonical(dir + "/checkpoints/best").string());
  EXPECT_EQ(single.status, 0) << single.text;
}

}  // namespace sluice::resume_test
