#pragma once

#include <memory>
#include <string>
#include <vector>

#include <c10/core/Device.h>

#include "lib/base/ipc_device.h"
#include "lib/base/messages/channel.h"
#include "lib/kernels/nccl.h"
#include "lib/replicas/group.h"

namespace sluice {

/// A replica whose sums NCCL makes.
struct NcclMember {
  int member = 1;  ///< from 1
  c10::Device device = c10::Device(c10::DeviceType::CUDA, 0);
  DeviceId id = {};       ///< of that GPU
  std::string name = {};  ///< of the group: "block 2"
};

/// The replicas of a block as ranks of NCCL, each a process with a GPU of its
/// own. links: as links_group() has them; they carry what makes the ranks
/// known to each other, and of each sum a hash of its layout. Made by all
/// replicas at once: waits for them. Throws UserError when two have one GPU.
///
/// Sums are NCCL's: in whatever order its algorithm adds, so that they equal
/// those in the order of the replicas but for rounding. They are made in place
/// in a buffer for each type, on a stream of the group's own, which waits for
/// what the current stream has at start_sum(); the current stream waits for it
/// from finish_sum() on. The host waits in finish_sum() until all have begun
/// the sum, and sets it off; not until it is made.
///
/// Throws LinkError when a link is gone or late, when layouts differ, or when
/// NCCL has told of an error; the communicator is given up then. A replica
/// that is lost after it has begun a sum is found at the next one, unless the
/// host waits for the GPU before: nothing ends that wait.
std::unique_ptr<Group> nccl_group(const Nccl& nccl, std::vector<Link> links,
                                  NcclMember who);

/// Group with load_nccl() and the id that CUDA has for the device.
std::unique_ptr<Group> nccl_group(std::vector<Link> links, int member,
                                  const c10::Device& device, std::string name);

/// Throws UserError where the program was built without CUDA, or load_nccl()
/// finds nothing.
void check_has_nccl();

}  // namespace sluice
