#include "lib/engines/thread_crew.h"

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>

#include "lib/base/by_block.h"
#include "lib/base/messages/memory_channel.h"
#include "lib/engines/control.h"
#include "lib/engines/heartbeat.h"
#include "lib/engines/linked_crew.h"
#include "lib/engines/progress_board.h"
#include "lib/engines/seat_order.h"
#include "lib/engines/worker_loop.h"
#include "lib/schedules/orders/executors.h"
#include "lib/schedules/replicas/replicas.h"
#include "lib/tensors/gpu/current_device.h"

namespace sluice {
namespace {

class ThreadCrew final : public Crew {
 public:
  ThreadCrew(const Plans& plans, std::int64_t threads,
             const PrepareWorker& prepare, CrewEvents events, std::size_t ahead)
      : plans_(plans),
        threads_(threads),
        seats_(plans.at(0).blocks.size()),
        heartbeats_(seats_.size()),
        board_(static_cast<int>(seats_.size())) {
    for (int executor = 0; executor < executors_of(plans.at(0)); ++executor)
      orders_.push_back(std::make_shared<SeatOrder>(plans, executor));
    const Capacity capacity = control_capacity(static_cast<int>(seats_.size()));
    std::vector<Link> links;
    for (const BlockPlan& plan : plans.at(0).blocks) {
      auto [control, crew] = memory_link(capacity.up, capacity.down,
                                         kControlDeadline, "control link");
      links.push_back(std::move(crew));
      ThreadWorker worker = prepare(plan.seat(), *control.sender);
      centres_.push_back(worker.centre);
      running_.emplace_back(&ThreadCrew::run, this, plan.seat(),
                            std::move(control), std::move(worker));
    }
    Supervision supervision;
    if (may_wait_in_circle(plans.at(0)))
      supervision.look = [this] { return look(); };
    linked_.emplace(std::move(links), std::move(events), ahead,
                    std::move(supervision), seat_names(plans.at(0)));
  }

  void give(const Grant& grant, std::span<const Batch> batches) override {
    linked_->give(grant, batches);
  }
  void wait() override { linked_->wait(); }
  CrewProgress progress() const override { return linked_->progress(); }

  std::optional<NamedTensors> weights() const override {
    NamedTensors all;
    for (const Seat* seat : seats_)
      for (auto& named : seat->weights()) all.push_back(std::move(named));
    return all;
  }

 private:
  /// Runs a block, on the block's thread.
  void run(int block, Link control, const ThreadWorker& prepared) {
    at::set_num_threads(static_cast<int>(threads_));
    Heartbeat& heartbeat = by_block(heartbeats_, block);
    control = with_waits_shown(std::move(control), heartbeat, kLauncher);
    const auto make = [&] {
      auto seat = prepared.make();
      by_block(seats_, block) = seat.get();
      return seat;
    };
    try {
      const CurrentDevice on(prepared.device);
      run_worker(block, plans_, control, make, runner_of(block),
                 prepared.fed.get());
    } catch (const std::exception&) {
      // Dropped: run_worker() has sent the failure to the crew, which throws
      // it.
    }
    heartbeat.waits_for(kLauncher);
  }

  /// Merges what replicas of a quorum wait for, where they wait in a circle.
  std::chrono::milliseconds look() {
    for (int seat = 1; seat <= std::ssize(heartbeats_); ++seat)
      board_.progress(seat, by_block(heartbeats_, seat).progress());
    if (board_.all_wait(kCircleShows))
      for (const auto& each : centres_)
        if (const auto centre = each.lock()) centre->merge_those_who_wait();
    return kCircleShows / 4;
  }

  /// Runner of a block's actions; several blocks of an executor take turns.
  SeatRunner runner_of(int block) {
    const RunPlan& plan = plans_.at(0);
    Heartbeat& heartbeat = by_block(heartbeats_, block);
    // A seat that runs free waits in no other action.
    SeatRunner runner(heartbeat,
                      [&heartbeat](const Action& action, const auto& execute) {
                        std::optional<WaitScope> waits;
                        if (action.op == Op::settle)
                          waits.emplace(heartbeat, kAnyNeighbour);
                        execute();
                      });
    if (plan.blocks.front().placement.is_shared())
      runner.share(
          orders_.at(static_cast<std::size_t>(executor_of(plan, block))));
    return runner;
  }

  const Plans& plans_;
  const std::int64_t threads_;
  /// Alive until their links end; set before their first grant is reached.
  std::vector<const Seat*> seats_;
  std::vector<std::shared_ptr<SeatOrder>> orders_;  // by executor
  std::vector<Heartbeat> heartbeats_;
  ProgressBoard board_;
  std::vector<std::weak_ptr<CentreHost>> centres_;  // by seat
  std::vector<std::jthread> running_;
  std::optional<LinkedCrew> linked_;  // goes first, which ends the threads
};

}  // namespace

std::unique_ptr<Crew> make_thread_crew(const Plans& plans, std::int64_t threads,
                                       const PrepareWorker& prepare,
                                       CrewEvents events, std::size_t ahead) {
  return std::make_unique<ThreadCrew>(plans, threads, prepare,
                                      std::move(events), ahead);
}

}  // namespace sluice
