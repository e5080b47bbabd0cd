#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "lib/base/messages/bell.h"
#include "lib/base/messages/channel.h"
#include "lib/engines/control.h"
#include "lib/engines/crew.h"
#include "lib/engines/grant_book.h"
#include "lib/engines/newcomers.h"
#include "lib/engines/progress_board.h"
#include "lib/metrics/clock_offset.h"
#include "lib/schedules/replicas/replicas.h"

namespace sluice {

/// Rules by which a crew supervises workers that are processes.
struct Supervision {
  /// Gets the workers' heartbeats; nullptr: they are threads of this process.
  ProgressBoard* board = nullptr;
  /// Called when all that came from the workers has been taken; returns after
  /// how long it wants to be called again if nothing comes until then.
  std::function<std::chrono::milliseconds()> look = nullptr;
  /// Called once, when the first worker has failed.
  std::function<void()> on_failure = nullptr;
  /// Whether the run goes on without a replica, but for the first, that is lost
  /// when all have joined; then what is called for each of its seats.
  bool survives_loss = false;
  std::function<void(int seat)> on_loss = nullptr;
  /// Where replicas call that join the run, at the places of those that are
  /// lost, or never were there; nullptr: none does.
  std::shared_ptr<Newcomers> newcomers = nullptr;
  /// Text on the end of a seat's process, where a signal ended it; empty: it
  /// runs, or said why itself. nullptr: unknown, as that of another host.
  std::function<std::string(int seat)> how_ended = nullptr;
  /// A worker whose links fail is not lost where one of the first replica has
  /// stalled for so long (ProgressBoard::stalled()): it has waited for that one
  /// in vain.
  Deadline first_stalls = std::chrono::hours(1);
};

/// Workers with a thread or process each, on the other ends of their control
/// links (by seat; worker_loop.h). Grants go down; records and reached grants
/// come up, taken while wait() is called. Processes, maybe of other hosts, are
/// asked for their time before their first grant, and what follows is a
/// records::ClockOffset.
///
/// When a worker fails, the crew ends the others; once all links have ended,
/// wait() throws the failure that caused the others, naming its block.
class LinkedCrew final : public Crew {
 public:
  /// A link without ends: the seat's replica isn't there yet. ahead:
  /// CrewProgress::ahead; at most what control_capacity() allows.
  LinkedCrew(std::vector<Link> links, CrewEvents events, std::size_t ahead,
             Supervision supervision = {}, const SeatNames& names = {});

  void give(const Grant& grant, std::span<const Batch> batches = {}) override;
  void wait() override;
  CrewProgress progress() const override { return book_.progress(); }
  std::optional<NamedTensors> weights() const override { return std::nullopt; }

  /// Gives a worker up and stops listening to it; for Supervision::look.
  void give_up(int block, Failure failure);
  /// Gives up all workers whose links have not ended.
  void give_up_all(const Failure& failure);
  /// Says so to the workers of replica 1, beside which the centres lie.
  void tell_centres(const CentreNotice& notice);
  /// Whether the crew goes on without the replica of that seat.
  bool can_lose(int block) const;
  /// Whether a worker has failed.
  bool is_failing() const { return !failures_.empty(); }
  /// The block that wait() named when it threw; 0: none.
  int failed_block() const { return failed_block_; }
  /// Whether all links have ended: after the last grant, or a failure.
  bool has_ended() const;

 private:
  struct WorkerLink {
    int block = 1;
    Link link;  ///< empty when it has ended
    std::size_t sent = 0;
    std::optional<ClockExchange> clock = {};  ///< until the first grant
    bool joins = false;                       ///< its next grant is its first
  };
  /// A replica that joins, whose workers wait for those of replica 1.
  struct JoiningReplica {
    Newcomer newcomer = {};
    std::size_t first_grant = 0;
    std::set<int> told = {};  ///< seats of replica 1
  };

  void begin(WorkerLink& talk);
  void vacate(WorkerLink& talk);
  bool take_some();
  void take(WorkerLink& talk);
  void heard(WorkerLink& talk, const Message& message);
  void ask_time(WorkerLink& talk);
  void send_ahead(WorkerLink& talk);
  static void send(WorkerLink& talk, Message message);
  void reached(WorkerLink& talk);
  void end(WorkerLink& talk);
  /// Place at which the crew noticed a failure.
  enum class FailureOrigin : std::uint8_t {
    at_its_link,  ///< which ended, or said what can't be
    otherwise     ///< a worker reported it, or the supervision gave it up
  };
  struct NotedFailure {
    Failure failure = {};
    FailureOrigin noticed = FailureOrigin::otherwise;
  };

  void fail(WorkerLink& talk, NotedFailure noted);
  Failure cause_of_loss(int replica, NotedFailure noted);
  std::optional<std::string> signal_of(int replica) const;
  std::optional<std::string> broken_link_of(int replica);
  bool take_records(WorkerLink& talk);
  void take_rest(WorkerLink& talk);
  void lose(int replica, const Failure& failure);
  bool is_last_given() const;
  bool is_arriving(int replica) const;
  void offer_place();
  bool take_newcomers();
  void announce(const NewcomerNews& news);
  void tell_of_newcomer(WorkerLink& talk);
  void admit(NewcomerNews news);
  void give_newcomer_up();
  bool missed_first(const Failure& failure) const;
  void pass_over_lost();
  [[noreturn]] void throw_cause();

  std::shared_ptr<Bell> bell_ = std::make_shared<Bell>();
  std::vector<WorkerLink> talks_;
  const CrewEvents events_;
  const Supervision supervision_;
  const SeatNames names_;
  GrantBook book_;
  int offered_ = 0;                    // a replica; 0: none
  int arriving_ = 0;                   // the last one that has joined
  std::map<int, std::int64_t> lives_;  // by replica: how many have come
  std::optional<JoiningReplica> joining_;
  std::vector<NotedFailure> failures_;
  int failed_block_ = 0;
};

/// Capacity of control links, on both sides: up to grants_ahead() grants and
/// the records about them.
Capacity control_capacity(int blocks);
/// The most grants that may lie ready at a block beside the one it is at.
std::size_t grants_ahead(int blocks);

}  // namespace sluice
