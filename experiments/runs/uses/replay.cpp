#include "experiments/runs/uses/replay.h"

#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "experiments/config/files/extends.h"
#include "experiments/config/reading/read_experiment.h"
#include "experiments/runs/folder/data_identity.h"
#include "experiments/runs/folder/free_schedule.h"
#include "experiments/runs/folder/maker.h"
#include "experiments/runs/folder/provenance.h"
#include "experiments/runs/folder/run_folder.h"
#include "experiments/runs/folder/run_reader.h"
#include "experiments/runs/processes/restarts.h"
#include "experiments/runs/seats/assembly.h"
#include "experiments/runs/seats/centres.h"
#include "experiments/runs/uses/recorded_lives.h"
#include "experiments/runs/uses/replayed_draws.h"
#include "experiments/runs/uses/saved_hashes.h"
#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/replicas/centre/centre_host.h"
#include "lib/schedules/orders/free_running.h"
#include "lib/schedules/replicas/replicas.h"
#include "lib/schedules/simulation/simulation.h"

namespace sluice {
namespace {

using Schedule = std::vector<std::vector<Action>>;

/// The experiment of the run, with room for all messages that wait for their
/// time in this one thread.
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
  if (!runs_free(experiment.plans.front()) && !experiment.assist.is_free)
    throw UserError(
        "{}: ran in lockstep, where nothing is left to chance and recorded; "
        "`sluice verify {}` compares the engines",
        folder, config_of_run(folder));
  check_same_data(folder, experiment);
  constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
  for (Capacity& capacity : experiment.capacities) capacity = {kAll, kAll};
  experiment.hashes = false;
  if (experiment.assist.is_free)
    experiment.recorded_lessons = recorded_lessons_of(folder);
  return experiment;
}

/// The last change that run.json has.
std::string continued_rate(const std::string& folder) {
  std::string rate;
  const auto run = read_provenance(folder + "/run.json");
  if (const auto parts = run.find("continued"); parts != run.end())
    for (const auto& part : *parts) rate = part.value("learning_rate", rate);
  return rate;
}

Schedule recorded_schedule(const std::string& folder, const RunPlan& plan) {
  const std::string path = schedule_of_run(folder);
  if (!std::filesystem::exists(path))
    throw UserError(
        "{}: has no schedule.txt, which is written with every checkpoint, and "
        "when a run ends",
        folder);
  Schedule schedule = read_schedule(path, plan);
  for (std::size_t i = 0; i < schedule.size(); ++i)
    schedule[i] = with_turns(plan.blocks[i], std::move(schedule[i]));
  return schedule;
}

int started_replicas(const Experiment& experiment) {
  const auto& replicas = experiment.replicas;
  return static_cast<int>(replicas.starts_with_all() ? replicas.count
                                                     : replicas.start_with);
}

/// Stands for CentreHost's number of one that came to a place.
constexpr std::int64_t kAnyLife = 0;

class Replay {
 public:
  Replay(std::string folder, Experiment experiment, SavedHashes saved)
      : folder_(std::move(folder)),
        experiment_(std::move(experiment)),
        schedule_(recorded_schedule(folder_, experiment_.plans.front())),
        saved_(std::move(saved)),
        lives_(experiment_.plans.front(), schedule_,
               {.last = saved_.last_turn(),
                .started = started_replicas(experiment_),
                .lost = lost_replicas_of(folder_),
                .losses = RunReader(folder_).next<records::CentreLoss>(),
                .counts_losses = count_losses(experiment_)},
               folder_),
        told_(lives_.losses().size(), false) {
    prepare_process(experiment_);
    for (const int replica : lives_.later())
      for (int block = 1; block <= experiment_.blocks(); ++block)
        away_.emplace(block, replica);
    note_entries();
    std::vector<Ends> ends = memory_ends(experiment_, lives_.later());
    for (int seat = 1; seat <= experiment_.seats(); ++seat) {
      Ends& its = by_block(ends, seat);
      if (const auto& ways = its.replicas.centres;
          ways && ways->own() != nullptr)
        centres_.push_back(ways->own()->host());
      workers_.push_back(
          make_seat(experiment_, seat, std::move(its), nullptr, {}));
    }
  }

  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;
  /// A centre ends with the seat beside it, and waits for all others.
  ~Replay() {
    newcomers_.clear();
    gone_.clear();
    while (!workers_.empty()) workers_.pop_back();
  }

  ReplayResult run() {
    Simulation simulation(experiment_.plans, {}, experiment_.capacities);
    for (const RecordedLoss& loss : lives_.losses()) simulation.note_loss(loss);
    for (int seat = 1; seat <= experiment_.seats(); ++seat)
      tell(seat, simulation);
    while (const std::optional<TimedAction> timed = simulation.next()) {
      const BlockPlan& mine =
          by_block(experiment_.plans.front().blocks, timed->seat);
      leave_before(mine, timed->action);
      if (timed->action.kind == ExchangeKind::entry) join(mine, timed->action);
      Seat& worker = *by_block(workers_, timed->seat);
      worker.execute(timed->action);
      if (timed->action.op == Op::settle &&
          timed->action.kind == ExchangeKind::agreement)
        join_after(mine.block, timed->action.batch);
      if (timed->action.op == Op::save) compare(worker, timed->action.batch);
    }
    if (!simulation.finished()) refuse(simulation.stuck());
    check_end();
    return std::move(replayed_);
  }

 private:
  std::shared_ptr<CentreHost> centre_of(int block) const {
    return by_block(centres_, block).lock();
  }
  /// Takes out of the centre which replicas were lost before it served that, or
  /// before all rested: the first replica comes to a rest when these have done
  /// all that they did.
  void leave_before(const BlockPlan& mine, const Action& action) {
    const bool ends_wait = action.op == Op::settle ||
                           (action.op == Op::exchange && mine.replica == 1 &&
                            action.kind == ExchangeKind::agreement);
    if (!ends_wait) return;
    const std::vector<RecordedLoss>& losses = lives_.losses();
    for (std::size_t i = 0; i < losses.size(); ++i) {
      if (losses[i].block != mine.block || told_[i] ||
          !is_before(losses[i], action))
        continue;
      told_[i] = true;
      lose(losses[i]);
    }
  }

  /// One that did nothing had joined, and was lost before it said anything.
  void lose(const RecordedLoss& loss) {
    const auto centre = centre_of(loss.block);
    if (away_.emplace(loss.block, loss.replica).second)
      centre->lose(loss.replica);
    else if (loss.has_place)
      centre->leave_out_place();
  }

  /// Replicas that join at a block, and the turns of their entries.
  void note_entries() {
    for (const BlockPlan& each : experiment_.plans.front().blocks) {
      std::vector<Action>& of_first = by_block(schedule_, each.block);
      for (const Action& entry : by_block(schedule_, each.seat())) {
        if (entry.kind != ExchangeKind::entry || entry.op != Op::exchange)
          continue;
        if (each.replica > started_replicas(experiment_))
          first_entries_.emplace(each.replica, entry.batch);
        std::optional<std::int64_t> rest;
        for (const Action& action : of_first)
          if (action.kind == ExchangeKind::agreement &&
              action.batch <= entry.batch)
            rest = action.batch;
        if (rest)
          after_rests_[{each.block, *rest}].push_back({each, entry.batch});
      }
    }
    for (const BlockPlan& each : experiment_.plans.front().blocks)
      for (const Action& entry : by_block(schedule_, each.seat()))
        if (const auto first = first_entries_.find(each.replica);
            first != first_entries_.end() && entry.kind == ExchangeKind::entry)
          first->second = std::min(first->second, entry.batch);
  }

  /// Lets replicas join that begin after that rest: the next one is of them.
  void join_after(int block, std::int64_t rest) {
    const auto found = after_rests_.find({block, rest});
    if (found == after_rests_.end()) return;
    for (const auto& [mine, turn] : found->second)
      if (away_.erase({block, mine.replica}) > 0) admit(mine, turn);
  }

  /// The ends of a replica that takes the place of another; none, where it is
  /// the first one there.
  std::vector<NewcomerEnds>* ends_of_newcomer(int replica, std::int64_t turn) {
    const auto first = first_entries_.find(replica);
    if (first != first_entries_.end() && first->second == turn) return nullptr;
    const auto [ends, is_new] = newcomers_.try_emplace({replica, turn});
    if (is_new) ends->second = newcomer_ends(experiment_, replica);
    return &ends->second;
  }

  void admit(const BlockPlan& mine, std::int64_t turn) {
    entered_[mine.seat()] = turn;
    const auto centre = centre_of(mine.block);
    if (auto* const ends = ends_of_newcomer(mine.replica, turn))
      centre->admit(mine.replica, kAnyLife,
                    std::move(by_block(*ends, mine.block).centre));
    else
      centre->admit(mine.replica);
  }

  /// Lets a replica begin. One that takes the place of another is made anew; it
  /// joins by now where no rest was without the other.
  void join(const BlockPlan& mine, const Action& entry) {
    auto* const ends = ends_of_newcomer(mine.replica, entry.batch);
    if (ends == nullptr) return;
    if (entry.op == Op::settle) {
      const auto entered = entered_.find(mine.seat());
      if (entered == entered_.end() || entered->second != entry.batch)
        admit(mine, entry.batch);
      return;
    }
    auto made =
        make_seat(experiment_, mine.seat(),
                  std::move(by_block(*ends, mine.block).ends), nullptr, {});
    made->start({});
    gone_.push_back(
        std::exchange(by_block(workers_, mine.seat()), std::move(made)));
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw UserError("{}: is no record of this run: {}",
                    schedule_of_run(folder_), why);
  }

  void tell(int seat, Simulation& simulation) {
    const std::vector<Action>& actions = by_block(schedule_, seat);
    simulation.extend(seat, actions);
    for (const Action& action : actions)
      if (!action.dropped.empty() && action.op == Op::forward)
        by_block(workers_, seat + 1)->ports().skip(action.dropped);
    by_block(workers_, seat)->start({});
  }

  void compare(const Seat& worker, std::int64_t turn) {
    if (saved_.has(turn))
      replayed_.compared.push_back(saved_.compared(worker, turn));
  }

  void check_end() const {
    const std::int64_t last = saved_.last_turn();
    const SeatNames names = experiment_.seat_names();
    for (int seat = 1; seat <= experiment_.seats(); ++seat) {
      bool is_there = lives_.lost().contains(names.replica_of(seat));
      for (const CheckpointComparison& one : replayed_.compared)
        is_there = is_there ||
                   (one.block == names.block_of(seat) &&
                    one.replica == names.replica_of(seat) && one.turn == last);
      if (!is_there)
        refuse(fmt::format("{} never comes to the checkpoint of turn {}",
                           names.of(seat), last));
    }
  }

  std::string folder_;
  Experiment experiment_;
  Schedule schedule_;
  SavedHashes saved_;
  const RecordedLives lives_;
  /// By block; used where replicas may be lost.
  std::vector<std::weak_ptr<CentreHost>> centres_;
  std::vector<bool> told_;              // of its losses: the centre was
  std::set<std::pair<int, int>> away_;  // block and replica
  struct Joins {
    BlockPlan block = {};
    std::int64_t turn = 0;
  };
  std::map<std::pair<int, std::int64_t>, std::vector<Joins>>
      after_rests_;                            // by block, and the rest before
  std::map<int, std::int64_t> first_entries_;  // by replica: where none was
  std::map<int, std::int64_t> entered_;        // by seat: turn of its entry
  std::map<std::pair<int, std::int64_t>, std::vector<NewcomerEnds>>
      newcomers_;  // by replica and turn of their entry
  std::vector<std::unique_ptr<Seat>> workers_;
  /// Workers of replicas whose place another took: their links are open.
  std::vector<std::unique_ptr<Seat>> gone_;
  ReplayResult replayed_;
};

}  // namespace

std::string ReplayResult::difference() const {
  for (const CheckpointComparison& one : compared)
    if (!one.difference.empty())
      return fmt::format(
          "turn {}, block {}{}: {}", one.turn, one.block,
          one.replica == 1 ? "" : fmt::format(".{}", one.replica),
          one.difference);
  return "";
}

ReplayResult replay(const std::string& run_folder) {
  Experiment experiment = recorded_experiment(run_folder);
  SavedHashes saved(run_folder, experiment.replicas.count);
  std::string makers = likely_cause(run_folder, experiment);
  ReplayResult replayed =
      runs_free(experiment.plans.front())
          ? Replay(run_folder, std::move(experiment), std::move(saved)).run()
          : replay_in_lockstep(std::move(experiment), std::move(saved));
  replayed.makers = std::move(makers);
  replayed.rate = continued_rate(run_folder);
  return replayed;
}

}  // namespace sluice
