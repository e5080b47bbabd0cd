#include "experiments/runs/replay.h"

#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "experiments/config/files/extends.h"
#include "experiments/runs/assembly.h"
#include "experiments/runs/free_schedule.h"
#include "experiments/runs/run_folder.h"
#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/metrics/hash.h"
#include "lib/schedules/free_running.h"
#include "lib/schedules/simulation.h"

namespace sluice {
namespace {

using Schedule = std::vector<std::vector<Action>>;

/// As this thread runs it: with room for all that waits for its time.
Experiment recorded_experiment(const std::string& folder) {
  check_is_run(folder);
  Experiment experiment =
      read_experiment(read_config_file(config_of_run(folder)), "");
  if (experiment.plans.front().blocks.front().exchange.in_memory)
    throw UserError(
        "{}: with replicas.policy = '{}' its replicas race for the weights, "
        "and nothing records who came first; with engine = 'virtual' its clock "
        "says so, and another run has the same bits",
        folder, experiment.replicas.policy);
  if (!runs_free(experiment.plans.front()))
    throw UserError(
        "{}: ran in lockstep, where nothing is left to chance and recorded; "
        "`sluice verify {}` compares the engines",
        folder, config_of_run(folder));
  constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
  for (Capacity& capacity : experiment.capacities) capacity = {kAll, kAll};
  experiment.hashes = false;
  return experiment;
}

Schedule recorded_schedule(const std::string& folder, int blocks) {
  const std::string path = schedule_of_run(folder);
  if (!std::filesystem::exists(path))
    throw UserError(
        "{}: has no schedule.txt, which is written with every checkpoint, and "
        "when a run ends",
        folder);
  Schedule schedule = read_schedule(path, blocks);
  for (auto& actions : schedule) actions = with_turns(std::move(actions));
  return schedule;
}

class Replay {
 public:
  explicit Replay(std::string folder)
      : folder_(std::move(folder)),
        experiment_(recorded_experiment(folder_)),
        schedule_(recorded_schedule(folder_, experiment_.blocks())),
        saved_(find_checkpoints(checkpoints_of_run(folder_))) {
    if (saved_.empty())
      throw UserError("{}: has no checkpoint to compare with", folder_);
    prepare_process(experiment_);
    std::vector<Ends> ends = memory_ends(experiment_);
    for (int block = 1; block <= experiment_.blocks(); ++block)
      workers_.push_back(make_seat(
          experiment_, block, std::move(by_block(ends, block)), nullptr, {}));
  }

  Replayed run() {
    Simulation simulation(experiment_.plans, {}, experiment_.capacities);
    for (int block = 1; block <= experiment_.blocks(); ++block)
      tell(block, simulation);
    while (const std::optional<TimedAction> timed = simulation.next()) {
      Seat& worker = *by_block(workers_, timed->seat);
      worker.execute(timed->action);
      if (timed->action.op == Op::save) compare(worker, timed->action.batch);
    }
    if (!simulation.finished()) refuse(simulation.stuck());
    check_end();
    return std::move(replayed_);
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw UserError("{}: is no record of this run: {}",
                    schedule_of_run(folder_), why);
  }

  void tell(int block, Simulation& simulation) {
    const std::vector<Action>& actions = by_block(schedule_, block);
    simulation.extend(block, actions);
    for (const Action& action : actions)
      if (!action.dropped.empty())
        by_block(workers_, block + 1)->ports().skip(action.dropped);
    by_block(workers_, block)->start({});
  }

  void compare(const Seat& worker, std::int64_t turn) {
    const auto found = saved_.find(turn);
    if (found == saved_.end()) return;  // not kept
    if (turn != loaded_turn_) loaded_.clear();
    if (loaded_.empty())
      for (auto& [name, tensor] : load_weights(found->second))
        loaded_[name] = hash_of(tensor);
    loaded_turn_ = turn;
    Compared one{.block = worker.block(), .turn = turn};
    std::string all;
    for (const auto& [name, tensor] : worker.weights()) {
      const std::string hash = hash_of(tensor);
      all += hash;
      if (one.difference.empty() && loaded_[name] != hash)
        one.difference = name;
    }
    one.hash = hash_of(all);
    replayed_.compared.push_back(std::move(one));
  }

  void check_end() const {
    const std::int64_t last = saved_.rbegin()->first;
    for (int block = 1; block <= experiment_.blocks(); ++block) {
      bool is_there = false;
      for (const Compared& one : replayed_.compared)
        is_there = is_there || (one.block == block && one.turn == last);
      if (!is_there)
        refuse(fmt::format("block {} never comes to the checkpoint of turn {}",
                           block, last));
    }
  }

  std::string folder_;
  Experiment experiment_;
  Schedule schedule_;
  std::map<std::int64_t, std::string> saved_;  // checkpoints by turn
  std::vector<std::unique_ptr<Seat>> workers_;
  std::int64_t loaded_turn_ = -1;
  std::map<std::string, std::string> loaded_;  // hashes of that checkpoint
  Replayed replayed_;
};

}  // namespace

std::string Replayed::difference() const {
  for (const Compared& one : compared)
    if (!one.difference.empty())
      return fmt::format("turn {}, block {}: {}", one.turn, one.block,
                         one.difference);
  return "";
}

Replayed replay(const std::string& run_folder) {
  return Replay(run_folder).run();
}

}  // namespace sluice
