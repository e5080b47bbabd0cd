// A replica without which a run has gone on is there again where the run is
// continued, or restarted: it begins with what the others agreed on.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/config/experiment.h"
#include "experiments/config/files/extends.h"
#include "experiments/config/reading/read_experiment.h"
#include "experiments/runs/folder/returned_replicas.h"
#include "experiments/runs/seats/assembly.h"
#include "lib/checkpoints/checkpoint.h"
#include "tests/experiments/helpers/faults.h"
#include "tests/experiments/helpers/lossy_runs.h"
#include "tests/experiments/helpers/process_group.h"

namespace sluice::returned_replica_test {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class Returned : public Faults {
 protected:
  /// Loses the last replica in turn 6 of 20.
  Outcome lose_last(const LossyCase& of, const std::string& more = "") {
    return run("disturbed",
               fmt::format("--inject 'kill block {} @ turn 6' {}{}", of.seat(),
                           of.config, more));
  }
  Outcome resume(const std::string& more) {
    return sluice("run --resume " + folder() + " " + more);
  }
  std::string folder() const { return path("disturbed"); }
  std::string last_saved() const {
    return find_checkpoints(folder() + "/checkpoints").rbegin()->second;
  }
  std::string status() const { return slurp(folder() + "/status.json"); }
  /// Turns of the replica in [first, end) of which a block tells.
  std::ptrdiff_t trained(int replica, std::int64_t first,
                         std::int64_t end) const {
    const std::vector<Record> all = records_of(folder(), "train");
    return std::count_if(all.begin(), all.end(), [&](const Record& record) {
      const std::int64_t turn = record.integer("turn");
      return record.integer("replica") == replica && turn >= first &&
             turn < end;
    });
  }
};

/// The tensor of that name; undefined where there is none.
at::Tensor tensor_of(const NamedTensors& tensors, const std::string& name) {
  for (const auto& [its, tensor] : tensors)
    if (its == name) return tensor;
  return {};
}

/// The blocks of the last replica, as a run begins with them that continues
/// from the checkpoint.
void expect_agreed(const LossyCase& of, const Experiment& experiment,
                   const std::string& saved) {
  const NamedTensors agreed = load_weights(saved);
  const NamedTensors own = load_own_weights(saved, 2);
  const NamedTensors first = load_state(saved);
  int differ = 0, states = 0;
  for (int seat = of.seat() - of.blocks + 1; seat <= of.seat(); ++seat) {
    const auto begun =
        make_seat(experiment, seat, {}, nullptr, {.resume = saved});
    for (const auto& [name, tensor] : begun->weights()) {
      EXPECT_TRUE(tensor_of(agreed, name).equal(tensor)) << name;
      if (!tensor_of(own, name).equal(tensor)) ++differ;
    }
    for (const auto& [name, tensor] : begun->state()) {
      EXPECT_FALSE(name.starts_with("flights.")) << name;
      if (!name.starts_with("layers.")) continue;
      EXPECT_TRUE(tensor_of(first, name).equal(tensor)) << name;
      ++states;
    }
  }
  EXPECT_GT(differ, 0);  // BatchNorm's statistics, at least
  EXPECT_GT(states, 0);
}

class ReturnedOf : public Returned,
                   public testing::WithParamInterface<LossyCase> {};

INSTANTIATE_TEST_SUITE_P(Policies, ReturnedOf,
                         testing::Values(kBackup, kQuorum, kServer, kGossip),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

TEST_P(ReturnedOf, ReplicaTrainsAgainWhereItsRunIsContinued) {
  const LossyCase of = GetParam();
  const std::string in_status = fmt::format("\"replica\": {}", of.replicas);
  const Outcome lossy = lose_last(of);
  ASSERT_EQ(lossy.status, 0) << lossy.text;
  EXPECT_FALSE(has_replica(last_saved(), of.replicas));
  EXPECT_THAT(status(), Not(HasSubstr(in_status)));
  const std::vector<Record> lost = records_of(folder(), "lost_replica");
  ASSERT_EQ(lost.size(), 1U);
  const Experiment experiment =
      read_experiment(read_config_file(config_of_run(folder())), "");
  EXPECT_EQ(returning_replicas(experiment, last_saved()),
            std::set<int>{of.replicas});
  expect_agreed(of, experiment, last_saved());

  const Outcome resumed = resume("turns=28");
  ASSERT_EQ(resumed.status, 0) << resumed.text;
  const std::vector<Record> returned = records_of(folder(), "returned_replica");
  ASSERT_EQ(returned.size(), 1U);
  EXPECT_EQ(returned[0].integer("turn"), 20);
  EXPECT_EQ(returned[0].integer("replica"), of.replicas);
  EXPECT_EQ(returned[0].integer("turns_left_out"),
            20 - lost[0].integer("turn"));
  EXPECT_EQ(returned[0].text("weights"), "agreed");
  EXPECT_THAT(resumed.text, HasSubstr(fmt::format(
                                "Replica {} is back after turn 20, with the "
                                "weights of the others",
                                of.replicas)));
  EXPECT_EQ(trained(of.replicas, 12, 20), 0);
  EXPECT_GT(trained(of.replicas, 20, 28), 0);
  EXPECT_TRUE(has_replica(last_saved(), of.replicas));
  EXPECT_THAT(status(), HasSubstr(in_status));

  // From now on it is as any other.
  const Outcome again = resume("turns=32");
  ASSERT_EQ(again.status, 0) << again.text;
  EXPECT_THAT(again.text, Not(HasSubstr("is back")));
  EXPECT_EQ(records_of(folder(), "returned_replica").size(), 1U);
  EXPECT_NE(sluice("replay " + folder()).status, 0);
  expect_nothing_left("disturbed");

  // And is not lost because a file is.
  fs::remove_all(last_saved() + "/replica-2");
  const Outcome refused = resume("turns=36");
  EXPECT_NE(refused.status, 0);
  EXPECT_THAT(refused.text, HasSubstr("replica 2 goes on with, and no record"));
}

TEST_F(Returned, ReplicaComesWithARestart) {
  const Outcome outcome =
      run("disturbed", fmt::format("on_failure=restart {} --inject 'kill block "
                                   "4 @ turn 6; kill block 1 @ turn 14'",
                                   kBackup.config));
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  const std::vector<Record> restarts = records_of(folder(), "restart");
  const std::vector<Record> returned = records_of(folder(), "returned_replica");
  ASSERT_EQ(restarts.size(), 1U);
  ASSERT_EQ(returned.size(), 1U);
  EXPECT_GE(returned[0].integer("turn"), 8);
  EXPECT_EQ(returned[0].integer("turn"), restarts[0].integer("turn"));
  EXPECT_GT(trained(4, restarts[0].integer("turn"), 20), 0);
  EXPECT_TRUE(fs::exists(folder() + "/done"));
}

/// The newest turn of replica 1.
std::int64_t newest_turn(const std::string& folder) {
  std::int64_t newest = 0;
  for (const Record& record : records_of(folder, "train"))
    if (record.integer("replica") == 1)
      newest = std::max(newest, record.integer("turn"));
  return newest;
}

TEST_F(Returned, ReplicaOfARunThatWasStoppedAfterTheLoss) {
  constexpr std::int64_t kTurnsPerEpoch = 960 / 4 / 3;
  {
    ProcessGroup group(
        fmt::format(
            "{} {}", SLUICE_PROGRAM,
            command("disturbed", fmt::format("{} turns=4000 batch_size=4 "
                                             "data.train=960 evaluate_every=0 "
                                             "--inject 'kill block 6 @ turn 6; "
                                             "delay 1->2 20ms'",
                                             kQuorum.config))),
        path("output"));
    for (int tries = 0; tries < 6000; ++tries) {
      if (!records_of(folder(), "lost_replica").empty()) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    const std::int64_t turn = newest_turn(folder());
    group.signal(SIGINT);
    ASSERT_EQ(group.wait(), 0) << slurp(path("output"));
    const std::int64_t stopped = *turn_of(last_saved());
    EXPECT_GE(stopped, turn);
    EXPECT_LT(stopped, turn + kTurnsPerEpoch);
  }
  EXPECT_THAT(slurp(path("output")), HasSubstr("run --resume"));
  EXPECT_FALSE(fs::exists(folder() + "/done"));
  const std::int64_t stopped = *turn_of(last_saved());
  const Outcome resumed = resume(fmt::format("turns={}", stopped + 8));
  ASSERT_EQ(resumed.status, 0) << resumed.text;
  EXPECT_THAT(resumed.text,
              HasSubstr(fmt::format("Replica 3 is back after turn {}, with the "
                                    "weights of the others",
                                    stopped)));
  EXPECT_GT(trained(3, stopped, stopped + 8), 0);
  expect_nothing_left("disturbed");
}

TEST(ReturnedReplicas, AreThoseThatWereLostAndHaveNotBeenThereSince) {
  const std::vector<Record> history = {
      records::LostReplica{.turn = 8, .replica = 3, .turns_left_out = 32},
      records::LostReplica{.turn = 12, .replica = 2},
      records::ReturnedReplica{.turn = 16, .replica = 2},
      records::LostReplica{.turn = 20, .replica = 4}};
  const auto returned =
      returned_replicas(history, {.turn = 24, .returning = {3}});
  ASSERT_EQ(returned.size(), 2U);
  EXPECT_EQ(returned[0].replica, 3);
  EXPECT_EQ(returned[0].turn, 24);
  EXPECT_EQ(returned[0].turns_left_out, 16);
  EXPECT_EQ(returned[0].weights, "agreed");
  // Replica 4 had saved that checkpoint before it was lost.
  EXPECT_EQ(returned[1].replica, 4);
  EXPECT_EQ(returned[1].turns_left_out, 0);
  EXPECT_EQ(returned[1].weights, "own");
  EXPECT_TRUE(returned_replicas({}, {.turn = 24}).empty());
}

TEST(ReturnedReplicas, LeaveNothingOutWhereOthersHaveDoneTheirWork) {
  const auto returned =
      returned_replicas({records::LostReplica{.turn = 8, .replica = 3}},
                        {.turn = 24, .returning = {3}});
  ASSERT_EQ(returned.size(), 1U);
  EXPECT_EQ(returned[0].turns_left_out, 0);
  EXPECT_EQ(returned[0].weights, "agreed");
}

}  // namespace sluice::returned_replica_test
