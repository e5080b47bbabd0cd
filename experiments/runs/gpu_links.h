#pragma once

#include <memory>
#include <string>

#include "experiments/config/experiment.h"
#include "lib/base/device_traffic.h"
#include "lib/base/ipc_device.h"
#include "lib/metrics/records.h"
#include "transport/meeting/rendezvous.h"

namespace sluice {

/// A worker's links in the chain; those that its block doesn't have are empty.
struct ChainLinks {
  Link control;
  Link below;
  Link above;
  std::string run = {};  ///< what the launcher said of its run
};

/// What the links of a worker process do with tensors that its block has on a
/// GPU: by CUDA IPC they go to a block on a GPU of the same host, over the
/// transport shared_memory; else through pinned memory of the host. Both ends
/// of a boundary come to the same answer from the config and the machine. Links
/// of a block on the CPU are left as they are.
class GpuLinks {
 public:
  /// `one_launcher`: one launcher on this host has started all workers, so that
  /// they see the same GPUs under the same numbers; ranks may see others each.
  /// Throws UserError when the block's device is missing.
  GpuLinks(const Experiment& experiment, int block, bool one_launcher);

  /// What the links must have from the start. `below` and `above` are their
  /// capacities.
  void ask_for(const Capacity& below, const Capacity& above,
               RendezvousOptions& options);
  /// Takes the buffers of shared memory from the links as they were made,
  /// before anything is put around them.
  void take_slots(const ChainLinks& links);
  /// The same links, for tensors on GPUs. They are used by the calling thread.
  ChainLinks around(ChainLinks links) const;

  /// How many tensors went how.
  void describe(records::Block& block) const;

 private:
  struct Boundary {
    bool by_ipc = false;
    BufferSource slots = nullptr;
    std::shared_ptr<DeviceTraffic> traffic = std::make_shared<DeviceTraffic>();
  };

  bool by_ipc(const Experiment& experiment, int block, int neighbour) const;
  Link around(Link link, const Boundary& boundary) const;

  bool on_gpu_;
  std::shared_ptr<IpcDevice> device_;  // where some boundary goes by IPC
  std::size_t slots_ = 0;              // of each link
  Boundary below_;
  Boundary above_;
};

}  // namespace sluice
