// Runs of replicas with clocks of their own, of configs that are drawn: what
// each engine has recorded gives its bits again.
#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "experiments/config/files/toml.h"
#include "experiments/config/reading/read_experiment.h"
#include "experiments/runs/folder/free_schedule.h"
#include "experiments/runs/run.h"
#include "experiments/runs/uses/replay.h"
#include "tests/experiments/helpers/process_group.h"
#include "tests/experiments/helpers/program.h"

namespace sluice::free_replica_replays_test {

constexpr int kMostSeats = 6;

/// A config of 12 turns, with checkpoints after 4, 8 and 12 of them.
struct DrawnConfig {
  int blocks = 1;
  int replicas = 2;
  std::string lines = {};
};

class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}

  DrawnConfig config() {
    DrawnConfig drawn{.blocks = number(1, 3)};
    const std::string policy = this->policy(drawn);
    const int accumulate = number(1, 2);
    drawn.lines = fmt::format(
        "turns = 12\nbatch_size = 24\nthreads = 1\nevaluate_every = 0.5\n"
        "seed = {}\nschedule = 'free'\nblocks = {}\n"
        "checkpoint = {{every_turns = 4}}\n"
        "data = {{train = 240, test = 40}}\n"
        "model = {{hidden = [24, 16], dropout = 0.2, batch_norm = true}}\n"
        "accumulate = {{batches = {}}}\n"
        "replicas = {{count = {}, policy = {}}}\n",
        number(1, 100), drawn.blocks, accumulate, drawn.replicas, policy);
    drawn.lines +=
        optimizer(policy, /*may_correct=*/drawn.blocks == 1 && accumulate == 1);
    if (drawn.blocks > 1)
      drawn.lines += fmt::format(
          "in_flight = {}\nboundary = {{policy = {}}}\n", number(1, 4),
          one_of({"'backprop'", "'delayed_gradient'",
                  "'features_replay', statistics = 'forward'", "'local_loss'",
                  "'target_projection'"}));
    return drawn;
  }

 private:
  int number(int least, int most) {
    return std::uniform_int_distribution(least, most)(random_);
  }

  std::string one_of(std::initializer_list<const char*> choices) {
    const int most = static_cast<int>(choices.size()) - 1;
    return *(choices.begin() + number(0, most));
  }

  /// Chooses the number of replicas, too.
  std::string policy(DrawnConfig& drawn) {
    const std::string name =
        one_of({"'server'", "'server', push = 'movement'", "'server', softsync",
                "'elastic', one_by_one = true", "'gossip', pairs = true",
                "'neighbours'"});
    if (name.starts_with("'gossip'")) {
      drawn.blocks = 1;  // a ring of an even number
      drawn.replicas = 4;
      return name + fmt::format(", mix = {}, meet_at = {}",
                                one_of({"'before'", "'after'"}),
                                one_of({"'centre'", "'partner'"}));
    }
    drawn.replicas = number(2, std::min(4, kMostSeats / drawn.blocks));
    if (name.ends_with("softsync"))
      return name + fmt::format(" = {}", number(1, drawn.replicas));
    if (name == "'server'" || name == "'neighbours'") return name;
    return name + fmt::format(", every = {}", number(1, 3));
  }

  /// Optimizer with a correction, if one may be: of gradients that a server
  /// steps by at once, each of one batch, with boundaries that don't delay.
  std::string optimizer(const std::string& policy, bool may_correct) {
    const std::string name = one_of({"sgd", "adam"});
    const std::string correction =
        may_correct && policy == "'server'" && name == "sgd"
            ? one_of({"", "delay_compensation", "staleness_aware"})
            : "";
    return fmt::format(
        "optimizer = {{name = '{}', lr = {}{}}}\n", name,
        name == "adam" ? 0.002 : 0.05,
        correction.empty()
            ? ""
            : fmt::format(", correction = {{name = '{}'}}", correction));
  }

  std::mt19937 random_;
};

/// Visits of a block's centre by another replica than the next in turn.
std::int64_t out_of_turn(const std::string& folder, const DrawnConfig& drawn) {
  const BlockPlan served = {
      .exchange = {.what = ExchangedTensors::gradients, .served = true}};
  const auto schedule = read_schedule(
      schedule_of_run(folder),
      {.blocks = std::vector<BlockPlan>(
           static_cast<std::size_t>(drawn.blocks * drawn.replicas), served)});
  std::int64_t count = 0;
  for (std::size_t seat = 0; seat < schedule.size(); ++seat) {
    const auto replica = static_cast<std::int64_t>(seat) / drawn.blocks;
    for (const Action& action : schedule[seat])
      if (action.arrived > 0 &&
          (action.arrived - 1) % drawn.replicas != replica)
        ++count;
  }
  return count;
}

class FreeReplicaReplays : public Program,
                           public testing::WithParamInterface<const char*> {};

TEST_P(FreeReplicaReplays,
       FreeReplicaReplaysOfDrawnConfigsHaveTheBitsOfTheRuns) {
  const unsigned replays = from_environment("SLUICE_FREE_REPLAYS", 3);
  Draw draw(random_seed());
  std::int64_t by_the_clock = 0;
  for (unsigned i = 0; i < replays; ++i) {
    const DrawnConfig drawn = draw.config();
    SCOPED_TRACE(drawn.lines);
    StopSignals signals;
    const ConfigNode config = parse_toml(
        fmt::format("engine = '{}'\n", GetParam()) + drawn.lines, "drawn.toml");
    const std::string folder = path(fmt::format("run-{}", i));
    run(read_experiment(config, ""),
        {.folder = folder, .quiet = true, .program = SLUICE_PROGRAM}, signals);
    const ReplayResult replayed = replay(folder);
    EXPECT_EQ(replayed.difference(), "");
    EXPECT_EQ(replayed.compared.size(),
              static_cast<std::size_t>(3 * drawn.blocks * drawn.replicas));
    by_the_clock += out_of_turn(folder, drawn);
    if (HasFailure()) return;
  }
  EXPECT_GT(by_the_clock, 0) << "or no record would be needed";
}

INSTANTIATE_TEST_SUITE_P(Engines, FreeReplicaReplays,
                         testing::Values("threads", "processes"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

}  // namespace sluice::free_replica_replays_test
