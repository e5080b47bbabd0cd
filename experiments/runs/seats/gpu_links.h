#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <c10/core/Device.h>

#include "experiments/config/experiment.h"
#include "lib/base/device_traffic.h"
#include "lib/base/ipc_device.h"
#include "lib/metrics/records.h"
#include "transport/meeting/rendezvous.h"
#include "transport/shared/ipc_greeting.h"

namespace sluice {

/// Links of a worker process, for tensors that its block has on a GPU: by CUDA
/// IPC they go to a seat on a GPU of the same host, over the transport
/// shared_memory; else through pinned memory of the host, which over that
/// transport both processes share, so that none of them copies it. Neighbours
/// in the chain and the other replicas of the block are alike. Both ends of a
/// link try it, whoever has started them, and come to the same answer. Links of
/// a block on the CPU are left as they are.
class GpuLinks {
 public:
  /// `device` is where the seat computes.
  GpuLinks(const Experiment& experiment, int seat, const c10::Device& device);

  /// Sets what the links to these peers, which are seats, must have from the
  /// start.
  void ask_for(const std::vector<PeerLink>& peers, RendezvousOptions& options);
  /// Agrees, over the links as they were made and before anything is put around
  /// them: asks the peers on GPUs, each of which does the same, whether tensors
  /// may stay there. Says where they won't though no config forbids it. Throws
  /// LinkError. This object must not move from then on.
  void agree(const JoinedLinks& joined);
  /// Link to be put where its waits aren't shown yet: what is copied
  /// to the host leaves it when the GPU has come so far, without its sender.
  Link departing(Link link) const;
  /// Link to that seat for tensors on GPUs, around `link`; used by the calling
  /// thread. A link without ends stays so.
  Link around(Link link, int peer) const;

  /// Adds to the record how many tensors went which way.
  void describe(records::Block& block) const;

 private:
  struct Peer {
    std::string name = {};              ///< "block 2"; "": it isn't on a GPU
    bool may_ask = false;               ///< whether it asks too
    std::optional<DeviceId> peer = {};  ///< tensors go there by CUDA IPC
    BufferSource slots = nullptr;
    // Slots of shared memory for what goes through the host.
    std::size_t largest = 0;        ///< bytes of a message; 0: unknown
    std::size_t pinned_sent = 0;    ///< how many, in which it sends
    std::size_t pinned_taken = 0;   ///< and receives
    BufferSource pinned = nullptr;  ///< the former, where CUDA has pinned them
    std::span<const std::byte> unpinned = {};  ///< the latter, where it hasn't
    std::shared_ptr<DeviceTraffic> traffic = std::make_shared<DeviceTraffic>();
  };

  Peer peer_at(int seat) const;
  bool is_replica(int seat) const;
  IpcHello hello(const Peer& peer) const;
  void offer_memory(IpcHello& mine) const;
  void agree(const Link& link, const std::string& over, Peer& peer) const;
  static void ask_for_slots(std::size_t sent, std::size_t taken, Peer& peer,
                            SharedMemoryOptions& options);
  void pin(const Link& link, Peer& peer) const;
  void say(const Peer& peer, const std::string& why) const;

  const Experiment& experiment_;
  const int seat_;
  const std::string name_;  // "block 1"
  const c10::Device where_;
  const bool wants_ipc_;               // the config does
  std::shared_ptr<IpcDevice> device_;  // where some link may go by IPC
  std::size_t slots_ = 0;              // of each link
  Deadline patience_ = {};             // of the links
  BufferSource buffers_ = nullptr;     // theirs
  std::map<int, Peer> peers_;          // by seat
};

}  // namespace sluice
