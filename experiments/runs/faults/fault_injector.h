#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "experiments/runs/faults/injection.h"
#include "lib/base/messages/channel.h"
#include "lib/engines/heartbeat.h"
#include "lib/engines/seat_runner.h"
#include "lib/metrics/sink.h"

namespace sluice {

/// Makes the faults of one worker happen, around its loop and its links, which
/// know nothing of it. Tells the launcher of those that happen once, which
/// sends the signals (SignalSink). Used on the worker's thread.
class FaultInjector {
 public:
  /// Takes those of the injections that name the block. `heartbeat` is the
  /// worker's.
  FaultInjector(const std::vector<Injection>& injections, int block,
                const Heartbeat& heartbeat);

  /// Sets the sink of the launcher, before anything happens.
  void tell(std::shared_ptr<Sink> launcher);
  /// Called when the block is about to be made.
  void starts();
  /// Wrapper of the actions of the worker's SeatRunner; this object must
  /// outlive it.
  ActionWrapper around();
  /// Link to that block with its delay; `room` more messages may be on their
  /// way.
  Link with_faults(Link link, int there, std::size_t room) const;
  /// The function that LinkOptions::damage wants, for the link to that block.
  void damage(int there, const Message& message, std::span<std::byte> frame);

 private:
  struct Fault {
    Injection injection;
    bool is_over = false;
  };
  void before(const Action& action);
  void happen(Fault& fault, std::int64_t turn);
  void announce(Fault& fault, std::int64_t turn, int signal);
  void slow_down(std::chrono::nanoseconds computed) const;
  bool fails(const Action& action);

  std::vector<Fault> faults_;
  const Heartbeat& heartbeat_;
  std::shared_ptr<Sink> launcher_;
};

}  // namespace sluice
