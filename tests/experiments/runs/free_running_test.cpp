// Blocks that run free, with real numbers. The labels X5 and X9 are those of
// the specification (methods, section 11).
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/runs/folder/free_schedule.h"
#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/schedules/simulation/simulation.h"
#include "tests/experiments/helpers/program.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::free_running_test {

using testing::HasSubstr;

constexpr const char* kNet =
    "blocks = ['0', '1', '2-']\n"
    "model = {hidden = [24, 20, 16], batch_norm = true, dropout = 0.2}\n"
    "optimizer = {lr = 0.05, momentum = 0.9, weight_decay = 0.01}\n"
    "evaluate_every = 0.7\n";
constexpr const char* kFree = "schedule = 'free'\n";
constexpr const char* kDdg = "boundary = {policy = 'delayed_gradient'}\n";
/// Switches in the middle of a window of three batches.
constexpr const char* kPhases =
    "timetable = [{turn = 7, boundary = {policy = 'local_loss'}}, "
    "{turn = 14, boundary = {policy = 'synthetic_gradient'}}]\n";

Costs costs_with(const std::vector<double>& slowness, double latency = 0,
                 double jitter = 0) {
  Costs costs{.latency = latency, .jitter = jitter, .seed = 3};
  for (const double slow : slowness)
    costs.blocks.push_back(
        {.seconds = {{Op::forward, 1}, {Op::backward, 2}}, .slowness = slow});
  return costs;
}

NamedTensors trained(const std::string& lines, const Costs& costs = {}) {
  Training training(small_experiment(kNet + lines));
  training.train(costs);
  return training.weights();
}

TEST(FreeRun, FreeRunOfCutsHasTheBitsOfLockstepWhateverTheCosts) {
  const std::string greedy =
      "boundary = {policy = 'local_loss', head = {name = 'predsim'}}\n";
  const NamedTensors lockstep = trained(greedy);
  for (const Costs& costs :
       {Costs{}, costs_with({1, 1, 1}), costs_with({1, 7, 1}, 0.5, 0.9)})
    EXPECT_EQ(difference(trained(kFree + greedy, costs), lockstep), "");
  EXPECT_GT(distance(trained("seed = 2\n" + greedy), lockstep), 1e-3);
}

TEST(FreeRun, WhenNothingTakesTimeHasTheBitsOfLockstep) {
  for (const char* policy :
       {"policy = 'backprop'", "policy = 'delayed_gradient'",
        "policy = 'features_replay', statistics = 'forward'",
        "policy = 'synthetic_gradient'", "policy = 'local_loss', reach = 1"}) {
    const std::string boundary = std::string("boundary = {") + policy + "}\n";
    EXPECT_EQ(difference(trained(kFree + boundary), trained(boundary)), "")
        << policy;
  }
}

TEST(FreeRun, FreeRunOfADelayDependsOnTheCosts) {
  const std::string ddg = std::string("in_flight = 4\n") + kFree + kDdg;
  const NamedTensors fast = trained(ddg, costs_with({1, 1, 1}));
  EXPECT_GT(distance(trained(ddg, costs_with({9, 1, 1})), fast), 1e-4);
  EXPECT_EQ(difference(trained(ddg, costs_with({1, 1, 1})), fast), "");
}

TEST(FreeRun, WithOneBatchInFlightIsBackprop) {
  const NamedTensors backprop = trained("boundary = {policy = 'backprop'}\n");
  const Costs costs = costs_with({2, 1, 3}, 1, 0.5);
  EXPECT_EQ(
      difference(trained(std::string("in_flight = 1\n") + kFree + kDdg, costs),
                 backprop),
      "");
  EXPECT_GT(distance(trained(std::string(kFree) + kDdg, costs), backprop),
            1e-4);
}

TEST(FreeRun, FreeRunOfATimetableWhenNothingTakesTimeHasTheBitsOfLockstep) {
  for (const char* window : {"", "accumulate = {batches = 3}\n"}) {
    const std::string lines = std::string(kDdg) + kPhases + window;
    const NamedTensors free = trained(kFree + lines);
    EXPECT_EQ(difference(free, trained(lines)), "") << window;
    EXPECT_NE(difference(free, trained(kDdg + std::string(window))), "");
  }
}

TEST(FreeRun, FreeRunOfATimetableAppliesEveryBatchOnceInThePhaseOfItsForward) {
  Training training(small_experiment(std::string(kNet) + "in_flight = 4\n" +
                                     kFree + kDdg + kPhases));
  std::map<std::pair<int, std::int64_t>, std::int64_t> phases;
  std::map<int, std::int64_t> next;
  training.watch = [&](const TimedAction& timed) {
    const Action& action = timed.action;
    if (action.op == Op::forward)
      phases[{timed.seat, action.batch}] = action.phase;
    if (action.op != Op::update) return;
    EXPECT_EQ(action.batch, next[timed.seat]++);
    const std::int64_t phase = action.batch < 7 ? 0 : action.batch < 14 ? 1 : 2;
    EXPECT_EQ(action.phase, phase);
    EXPECT_EQ((phases[{timed.seat, action.batch}]), phase);
  };
  training.train(costs_with({1, 4, 2}, 1.5, 0.8));
  EXPECT_EQ(next, (std::map<int, std::int64_t>{{1, 20}, {2, 20}, {3, 20}}));
}

/// What a run measures: times by block, counter and value.
class StalenessTimes final : public Sink {
 public:
  void write(const Record& record) override {
    if (record.text("kind") == "staleness")
      times[static_cast<int>(record.number("block", 0))][record.text("counter")]
           [static_cast<std::int64_t>(record.number("value", -1))] =
               static_cast<std::int64_t>(record.number("times", 0));
  }
  std::map<int, std::map<std::string, std::map<std::int64_t, std::int64_t>>>
      times;
};

std::int64_t stalest(int block, const std::string& lines, const Costs& costs) {
  const auto measured = std::make_shared<StalenessTimes>();
  Training training(
      small_experiment("blocks = 2\nmodel = {hidden = [24]}\n" + lines),
      measured);
  training.train(costs);
  const auto& seen = measured->times.at(block).at("d_batch");
  std::int64_t updates = 0;
  for (const auto& [value, times] : seen) updates += times;
  EXPECT_EQ(updates, 20);
  return seen.rbegin()->first;
}

TEST(FreeRun, ASlowBlockAboveMakesGradientsStaler) {
  const std::string ddg = std::string("in_flight = 5\n") + kFree + kDdg;
  EXPECT_EQ(stalest(1, ddg, costs_with({9, 1})), 1);
  EXPECT_EQ(stalest(1, ddg, costs_with({1, 9})), 4);
}

TEST(FreeRun, FreeRunOfADelayMayNotBeStalerThanAllowed) {
  Training training(small_experiment(
      std::string(kNet) + "in_flight = 5\nmax_staleness = 3\n" + kFree + kDdg));
  EXPECT_THROW(training.train(costs_with({1, 9, 1})), UserError);
}

TEST(FreeRun, X9_EveryBatchIsAppliedOnceByEveryBlock) {
  Training training(
      small_experiment(std::string(kNet) + "in_flight = 3\n" + kFree + kDdg));
  std::map<int, std::int64_t> next;
  training.watch = [&](const TimedAction& timed) {
    if (timed.action.op == Op::update) {
      EXPECT_EQ(timed.action.batch, next[timed.seat]++);
    }
  };
  training.train(costs_with({1, 4, 2}, 1.5, 0.8));
  EXPECT_EQ(next, (std::map<int, std::int64_t>{{1, 20}, {2, 20}, {3, 20}}));
}

NamedTensors without_statistics(NamedTensors all) {
  std::erase_if(all, [](const auto& named) {
    return named.first.find("running") != std::string::npos ||
           named.first.find("num_batches") != std::string::npos;
  });
  return all;
}

TEST(FreeRun, X5_NothingMovesBeforeTheFirstSignal) {
  Training training(
      small_experiment(std::string(kNet) + "in_flight = 4\n" + kFree + kDdg));
  const NamedTensors before =
      copies_of(without_statistics(training.block(1).weights()));
  int forwards = 0;
  bool updated = false;
  training.watch = [&](const TimedAction& timed) {
    if (timed.seat == 1 && timed.action.op == Op::update) updated = true;
    if (updated) return;
    forwards += timed.seat == 1 && timed.action.op == Op::forward;
    EXPECT_EQ(
        difference(without_statistics(training.block(1).weights()), before),
        "");
  };
  training.train(costs_with({1, 1, 9}));
  EXPECT_EQ(forwards, 4);
  EXPECT_NE(difference(without_statistics(training.block(1).weights()), before),
            "");
}

/// What a run has done, as text, and what its weights are then.
struct ScheduleRecording {
  std::vector<std::string> lines;
  NamedTensors weights;
};

ScheduleRecording recorded(const std::string& config, const Costs& costs) {
  Training training(small_experiment(config));
  std::vector<std::vector<Action>> done(training.workers.size());
  training.watch = [&](const TimedAction& timed) {
    by_block(done, timed.seat).push_back(timed.action);
  };
  training.train(costs);
  ScheduleRecording run{.lines = {}, .weights = training.weights()};
  for (const std::vector<Action>& actions : done)
    run.lines.push_back(to_text(actions));
  return run;
}

NamedTensors replayed(const std::string& config,
                      const std::vector<std::string>& lines) {
  Training training(small_experiment(config));
  const Experiment& experiment = training.experiment;
  Simulation simulation(experiment.plans, {}, experiment.capacities);
  for (std::size_t k = 0; k < lines.size(); ++k)
    simulation.extend(static_cast<int>(k) + 1,
                      with_turns({}, actions_from_text(lines[k])));
  while (const auto timed = simulation.next())
    training.block(timed->seat).execute(timed->action);
  EXPECT_TRUE(simulation.finished()) << simulation.stuck();
  return training.weights();
}

TEST(FreeRun, IsRepeatedFromItsRecordWithoutCosts) {
  for (const char* timetable : {"", kPhases}) {
    const std::string lines =
        std::string("in_flight = 4\n") + kFree + kDdg + timetable;
    const ScheduleRecording run =
        recorded(kNet + lines, costs_with({2, 1, 3}, 0.5, 0.9));
    EXPECT_EQ(difference(replayed(kNet + lines, run.lines), run.weights), "");
    EXPECT_NE(difference(trained(lines), run.weights), "");
  }
}

TEST(FreeRun, RefusesToClipOverTheModel) {
  try {
    small_experiment(
        "schedule = 'free'\noptimizer = {clip = {norm = 1, scope = "
        "'model'}}\n");
    FAIL() << "it was accepted";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("clip.scope = 'model'"));
  }
}

class FreeRunProgram : public Program {};

TEST_F(FreeRunProgram, LeavesARecordThatPlanReads) {
  const std::string config = write(
      "config.toml", config_with("blocks = 3\nmodel = {hidden = [24, 16]}\n"
                                 "schedule = 'free'\nin_flight = 3\n"
                                 "boundary = {policy = 'delayed_gradient'}\n"
                                 "virtual = {forward = 1, backward = 2, slow "
                                 "= ['2x3']}\n"));
  const std::string dir = path("run");
  const Outcome run = sluice("run " + config + " --dir " + dir);
  ASSERT_EQ(run.status, 0) << run.text;
  const std::string record = slurp(dir + "/schedule.txt");
  EXPECT_THAT(record, HasSubstr("F0 F1 F2 B0 U0 F3"));
  const Outcome list =
      sluice("plan " + config + " --list --actions " + dir + "/schedule.txt");
  ASSERT_EQ(list.status, 0) << list.text;
  EXPECT_EQ(list.text, record);
}

TEST_F(FreeRunProgram, LeavesARecordOfItsPhases) {
  const std::string config = write(
      "config.toml", config_with("blocks = 3\nmodel = {hidden = [24, 16]}\n"
                                 "schedule = 'free'\nin_flight = 3\n"
                                 "boundary = {policy = 'delayed_gradient'}\n"
                                 "timetable = [{turn = 5, boundary = {policy = "
                                 "'local_loss'}}]\n"));
  const std::string dir = path("run");
  const Outcome run = sluice("run " + config + " --dir " + dir);
  ASSERT_EQ(run.status, 0) << run.text;
  const std::string record = slurp(dir + "/schedule.txt");
  EXPECT_THAT(record, HasSubstr("B4 U4 P1 F5 B5 U5 F6"));
  const Outcome list =
      sluice("plan " + config + " --list --actions " + dir + "/schedule.txt");
  EXPECT_EQ(list.text, record);
}

TEST_F(FreeRunProgram, WithBuffersIsNotContinued) {
  const std::string config = write(
      "config.toml", config_with("blocks = 2\nmodel = {hidden = [24]}\n"
                                 "schedule = 'free'\nboundary = {policy = "
                                 "'local_loss', buffer = {batches = 2}}\n"));
  const std::string dir = path("run");
  ASSERT_EQ(sluice("run " + config + " --dir " + dir).status, 0);
  const Outcome resumed = sluice("run --resume " + dir + " turns=20");
  EXPECT_EQ(resumed.status, 2);
  EXPECT_THAT(resumed.text, HasSubstr("can't be continued"));
}

}  // namespace sluice::free_running_test
