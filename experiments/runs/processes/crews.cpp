#include "experiments/runs/processes/crews.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <thread>
#include <utility>
#include <vector>

#include "experiments/config/rules/replica_rules.h"
#include "experiments/runs/processes/door.h"
#include "experiments/runs/processes/ranks.h"
#include "experiments/runs/processes/roll_call.h"
#include "experiments/runs/ranks/note.h"
#include "experiments/runs/ranks/wait_notice.h"
#include "experiments/runs/seats/devices.h"
#include "experiments/runs/seats/ways.h"
#include "lib/base/by_block.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/engines/control.h"
#include "lib/engines/process_crew.h"
#include "lib/engines/thread_crew.h"
#include "lib/engines/worker_loop.h"
#include "lib/schedules/orders/executors.h"
#include "lib/schedules/replicas/replicas.h"
#include "transport/links/hello.h"
#include "transport/links/io_thread.h"
#include "transport/meeting/rendezvous.h"
#include "transport/wire/secret.h"

namespace sluice {
namespace {

std::unique_ptr<Seat> seat_of(const CrewParts& parts, int block, Ends ends,
                              std::shared_ptr<Sink> sink,
                              std::shared_ptr<FedSource> fed) {
  return make_seat(parts.experiment, block, std::move(ends), std::move(sink),
                   parts.files, parts.events.observer, std::move(fed));
}

/// Where the worker processes of a crew meet, and the thread of their links.
class MeetingPlace {
 public:
  MeetingPlace(const CrewParts& parts, const ProcessPlace& place)
      : place_(place),
        secret_(place.rank ? secret_of(*place.rank) : make_secret()) {
    RendezvousOptions options = rendezvous_options(parts.experiment, secret_);
    choose_transports(parts.experiment, !place.rank || place.rank->one_host,
                      options);
    deadline_ = options.deadline;
    patience_ = options.patience;
    if (place.rank) {
      options.host = host_of(*place.rank);
      ranks_.emplace(parts.experiment, turn_of(parts.files.resume).value_or(0));
      ranks_->judge_in(options);
      ended_.emplace(*place.rank);
    } else {
      options.deadline = kSupervisedDeadline;
    }
    options.check = [this] {
      check_children_();
      if (place_.check) place_.check();
      look_for_ended_ranks();
    };
    rendezvous_.emplace(io_, std::move(options));
    if (place.rank && place.rank->one_host)
      note_.emplace(path_of_note(place.rank->job),
                    Note{.address = rendezvous_->address(),
                         .secret = secret_,
                         .folder = std::filesystem::absolute(place.folder),
                         .resume = parts.files.resume,
                         .faults = place.faults});
  }

  std::string address() const { return rendezvous_->address(); }
  const Secret& secret() const { return secret_; }
  Deadline deadline() const { return deadline_; }

  std::vector<Link> meet(const std::function<void()>& check_children) {
    check_children_ = check_children;
    return ranks_ ? meet_ranks() : rendezvous_->accept_workers();
  }

  void all_joined() {
    rendezvous_->close();
    note_.reset();
    if (place_.on_begin) place_.on_begin();
  }

  /// Marks of the workers' hosts, as Rendezvous has them.
  const std::vector<std::string>& marks() const { return rendezvous_->marks(); }

 private:
  /// Waits for the ranks, and says for which.
  std::vector<Link> meet_ranks() {
    RefusalNotices refusals(*rendezvous_);
    std::vector<Link> links;
    try {
      const WaitNotice notice([&] { return awaited_text(*rendezvous_); },
                              patience_, [&] { return refusals.next(); });
      links = rendezvous_->accept_workers();
    } catch (const Disagreement&) {
      refuse_all();
      throw;
    }
    ranks_->record_builds(place_.folder);
    return links;
  }

  /// A rank that has neither called nor said that it won't. Block 1 is our own
  /// child, which we end.
  bool is_anybody_missing() const {
    const std::vector<std::uint32_t> blocks = rendezvous_->awaited();
    return std::any_of(blocks.begin(), blocks.end(), [&](std::uint32_t block) {
      return block > 1 && !ended_->contain(static_cast<int>(block) - 1);
    });
  }

  void look_for_ended_ranks() {
    if (!note_) return;
    const std::string reason = ended_->look();
    if (!reason.empty()) rendezvous_->refuse_all(reason);
  }

  /// Ranks that have not called yet shall not wait for one that is gone.
  void refuse_all() {
    const auto end = std::chrono::steady_clock::now() + kTimeToCall;
    while (is_anybody_missing() && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ended_->look();
    }
    // Time for the refusals to arrive.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }

  const ProcessPlace place_;
  const Secret secret_;
  Deadline deadline_ = {};
  Deadline patience_ = {};
  std::function<void()> check_children_;
  std::optional<EndedRanks> ended_;
  std::optional<RollCall> ranks_;  // judges for as long as `io` runs
  IoThread io_;
  std::optional<Rendezvous> rendezvous_;
  std::optional<PostedNote> note_;
};

/// Where replicas wait for no other, a user may want all of them again rather
/// than those that are left.
bool goes_on_without_replicas(const Experiment& experiment) {
  const RunPlan& plan = experiment.plans.front();
  return survives_loss(plan) &&
         (plan.blocks.front().exchange.quorum.is_there() ||
          !experiment.restart_on_failure);
}

}  // namespace

std::unique_ptr<VirtualCrew> make_virtual_crew(const CrewParts& parts,
                                               VirtualTime time) {
  const Experiment& experiment = parts.experiment;
  const auto sink = sink_for(parts.events);
  const auto fed = fed_by(parts.batches);
  std::vector<Ends> ends = memory_ends(experiment);
  Seats seats;
  for (int seat = 1; seat <= experiment.seats(); ++seat)
    seats.push_back(
        seat_of(parts, seat, std::move(by_block(ends, seat)), sink, fed));
  return std::make_unique<VirtualCrew>(
      std::move(seats),
      VirtualParts{.plans = experiment.plans,
                   .capacities = experiment.capacities,
                   .costs = std::move(time.costs),
                   .threads = experiment.threads,
                   .watch = std::move(time.watch),
                   .saved = std::move(time.saved),
                   .fed = fed},
      parts.events);
}

std::unique_ptr<Crew> make_thread_crew(const CrewParts& parts) {
  const Experiment& experiment = parts.experiment;
  std::vector<Ends> ends = memory_ends(experiment);
  const auto prepare = [&](int block, Sender& control) -> ThreadWorker {
    const auto fed = fed_by(parts.batches);
    std::weak_ptr<CentreHost> centre;
    if (const auto& ways = by_block(ends, block).replicas.centres;
        ways && ways->own() != nullptr)
      centre = ways->own()->host();
    const auto make =
        [parts, block, fed, &control,
         mine = std::make_shared<Ends>(std::move(by_block(ends, block)))] {
          return seat_of(parts, block, std::move(*mine), control_sink(control),
                         fed);
        };
    ThreadWorker worker{.make = make,
                        .device = device_of_seat(experiment, block),
                        .centre = centre};
    if (!fed) return worker;
    worker.make = [made = std::make_shared<std::unique_ptr<Seat>>(make())] {
      return std::move(*made);
    };
    worker.fed = fed;
    return worker;
  };
  return make_thread_crew(experiment.plans, experiment.threads, prepare,
                          parts.events, parts.ahead);
}

std::unique_ptr<Crew> make_process_crew(const CrewParts& parts,
                                        const ProcessPlace& place) {
  const auto meeting = std::make_shared<MeetingPlace>(parts, place);
  const auto process_of = [plan = parts.experiment.plans.front()](int block) {
    return first_beside(plan, block);
  };
  const int local_rank = place.rank ? place.rank->local : -1;
  const auto command = [=, resume = parts.files.resume](int block) {
    if (place.rank && block > 1) return ChildCommand();
    if (process_of(block) != block) return ChildCommand();
    return worker_command(place.program, {.folder = place.folder,
                                          .block = block,
                                          .address = meeting->address(),
                                          .resume = resume,
                                          .faults = place.faults,
                                          .local_rank = local_rank});
  };
  const bool survives_loss = goes_on_without_replicas(parts.experiment);
  const bool is_open = survives_loss && can_be_joined(parts.experiment) &&
                       parts.batches == Batches::of_data;
  return make_process_crew(
      parts.experiment.seats(),
      {.command = command,
       .input = meeting->secret().text(),
       .meet = [=](const auto& check) { return meeting->meet(check); },
       .all_joined =
           [=, &experiment = parts.experiment, sink = sink_for(parts.events)] {
             meeting->all_joined();
             if (const auto ways = ways_of(experiment, meeting->marks()))
               sink->write(*ways);
           },
       .process_of = process_of,
       .names = parts.experiment.seat_names(),
       .deadline = meeting->deadline(),
       .survives_loss = survives_loss,
       .may_wait_in_circle = may_wait_in_circle(parts.experiment.plans.front()),
       .started = parts.experiment.started_seats(),
       .newcomers = is_open
                        ? std::make_shared<Door>(parts.experiment, place.folder,
                                                 place.door, meeting->secret())
                        : nullptr},
      parts.events, parts.ahead);
}

}  // namespace sluice
