#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include <c10/core/Device.h>

#include "lib/base/messages/channel.h"
#include "lib/engines/crew.h"
#include "lib/engines/fed_source.h"
#include "lib/replicas/centre/centre_host.h"
#include "lib/workers/seat.h"

namespace sluice {

/// Seats and sources that a thread of a crew works with.
struct ThreadWorker {
  /// Makes the seat; called on the block's thread, once.
  std::function<std::unique_ptr<Seat>()> make;
  /// The source that is fed with the batches of the grants; nullptr: none come.
  std::shared_ptr<FedSource> fed = nullptr;
  /// Device that is current on the block's thread from its start to its end.
  c10::Device device = c10::DeviceType::CPU;
  std::weak_ptr<CentreHost> centre = {};  ///< of the block, if it has one
};

/// `control` is where the block's records go. Called on the thread that makes
/// the crew, for one block after the other.
using PrepareWorker = std::function<ThreadWorker(int block, Sender& control)>;

/// A crew with a thread for each block, of `threads` intra-op threads. The
/// plans must outlive it.
std::unique_ptr<Crew> make_thread_crew(const Plans& plans, std::int64_t threads,
                                       const PrepareWorker& prepare,
                                       CrewEvents events,
                                       std::size_t ahead = 1);

}  // namespace sluice
