#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "lib/base/memory/account.h"
#include "lib/metrics/records.h"
#include "lib/workers/seat_core.h"
#include "lib/workers/seat_parts.h"
#include "lib/workers/seat_state.h"

namespace sluice {

/// Executes the actions of one replica of a block, on its device; the
/// parameters of the ends of its boundaries are moved there. The only owner of
/// weights, optimizer and autograd graphs. For one thread.
class Seat {
 public:
  /// seat: its number in the plans.
  Seat(int seat, SeatSettings settings, SeatParts parts);

  /// Waits for the action's inputs, computes, and sends. Throws LinkError when
  /// a neighbour is gone, UserError and InternalError as their texts say; where
  /// the memory of its GPU runs out, UserError.
  void execute(const Action& action);

  int block() const { return core_.block.index(); }
  /// Device that the seat computes on.
  const c10::Device& device() const { return core_.device(); }
  int replica() const { return core_.plan().replica; }
  /// Number of the seat among all seats of the run.
  int number() const { return core_.place.seat(); }
  /// Channels to the seat's neighbours.
  Ports& ports() { return core_.ports; }
  SeatClock& clock() { return core_.clock; }
  /// Bytes of a centre, as ReplicaSync::bytes_of_centre().
  std::int64_t bytes_of_centre(int members) const {
    return core_.replicas.bytes_of_centre(members);
  }
  /// Weights of the block and its ends, and the tensors of ends that start as
  /// copies of weights (TrainedTensors).
  NamedTensors weights() const { return core_.trained.weights(); }
  NamedTensors copied() const { return core_.trained.copied(); }
  /// State of a checkpoint beside the weights: of the optimizer, counters
  /// ("workers.<k>.*"), and batches and messages in flight
  /// ("flights.<k>.<batch>.*", "sent.<k>.<batch>.*").
  NamedTensors state() const { return state_of(core_); }
  /// Loads tensors that weights() and state() returned at one turn, by name;
  /// further tensors are ignored. `source` is named in errors. To be called
  /// before start().
  void restore(const NamedTensors& weights, const NamedTensors& state,
               std::string_view source) {
    restore_seat(core_, weights, state, source);
  }
  /// Called after restore() where another replica of the block was lost, and
  /// begins with the weights of the block's centre, if that lies here.
  void rejoin(int replica) { core_.replicas.rejoin(replica); }
  /// Lets a replica join the run, between two grants, where the block's centre
  /// lies here: CentreHost::admit().
  void admit(int replica, std::int64_t life, Link link) {
    core_.replicas.admit(replica, life, std::move(link));
  }
  /// To be called before the first action: sends again the messages that were
  /// in flight in the checkpoint of a continued run. `first` is the run's first
  /// grant.
  void start(const Grant& first);
  /// The sum of the gradients of the window's batches so far; right after an
  /// update, that sum as the update's transforms handed it to the optimizer. In
  /// the order of the parameters; undefined for a parameter without a gradient.
  /// For tests and probes.
  const Tensors& gradients() const { return core_.window.gradients; }
  std::int64_t weight_version() const { return core_.progress.version; }
  /// The weights that are evaluated: of replica 1 those that all agreed on
  /// last.
  NamedTensors evaluated_weights() const {
    return core_.evaluated.in_place_of(weights());
  }
  /// Place of the last action among all that the replicas' centre has served
  /// (Action::arrived); 0: it isn't one that is served.
  std::int64_t served_as() const { return core_.progress.served_as; }
  /// The latest turn that replicas had made when this one, whose gradient may
  /// have come too late, took what they made; -1: none, or they drop nothing.
  std::int64_t merged_turn() const { return core_.late.merged_turn(); }
  /// Whether a dealer has the batches of the seat's forwards, which the next
  /// one then is; nothing: all of the grant are dealt.
  bool is_dealt_to() const {
    return core_.plan().micro_batches.by_arrival && block() == 1;
  }
  std::optional<std::int64_t> deal(const Grant& grant) {
    const MicroBatches& cut = core_.plan().micro_batches;
    return core_.replicas.deal(cut.first_of(grant.first_turn),
                               cut.first_of(grant.end_turn));
  }
  /// Counts turns that are left out because other replicas have merged without
  /// this one.
  void left_out(std::size_t turns) {
    core_.late.left_out(static_cast<std::int64_t>(turns));
  }
  /// Number of batches between forward and backward, and number of autograd
  /// graphs: of these batches, and of batches between the halves of a backward.
  std::size_t flights() const { return core_.held.flights.size(); }
  std::size_t graphs() const { return core_.held.graphs(); }
  /// The actions done so far, which determine those that may come next.
  const Ledger& ledger() const { return core_.ledger; }
  /// Whether the ports are ready, as Ports::are_ready().
  bool is_ready(Action& action) {
    return core_.ports.are_ready(core_.run_plan(), action);
  }
  /// Arrival of the action's messages, as Ports::arrival_of().
  SteadyTime arrival_of(const Action& action) const {
    return core_.ports.arrival_of(core_.run_plan(), action);
  }

  /// To be called after the last action: writes a record of the block's times
  /// and memory, and closes the links. Messages already sent still arrive.
  void finish();

 private:
  void measure(const Action& action);
  void perform(const Action& action);
  void write_status(const Action& action);
  records::Block costs() const;

  std::shared_ptr<MemoryAccount> memory_;
  SeatCore core_;
  SteadyTime status_written_ = std::chrono::steady_clock::now();
};

}  // namespace sluice
