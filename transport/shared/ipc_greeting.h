#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/ipc_device.h"
#include "lib/base/messages/channel.h"

// What two blocks on GPUs tell each other over a link of shared memory before
// anything else: which GPU each of them has, memory of it to try, and then
// whether the other's could be opened. So it is the devices that say whether
// tensors may stay on them, and not who has started the processes, which GPUs
// each of them sees, or how they are numbered there. README.md has the bytes.
namespace sluice {

/// Greeting of an end: its GPU, host and reach.
struct IpcHello {
  std::string boot =
      {};  ///< boot_id() (lib/base/files/lock_holder.h) of its host
  DeviceId device = {};
  IpcHandle memory = {};     ///< some of it; nothing where `refusal` is not ""
  std::string refusal = {};  ///< why it doesn't use CUDA IPC
  /// Why it doesn't with a peer on the same GPU. The peer is not sent it, but
  /// learns of it by the answer.
  std::string same_gpu_refusal = {};
};

/// Texts are cut to 200 bytes.
std::vector<std::byte> encode_ipc_hello(const IpcHello& hello);
/// Throws LinkError for anything that encode_ipc_hello() doesn't write.
IpcHello decode_ipc_hello(std::span<const std::byte> bytes);

/// Result of two greetings, the same at both ends.
struct IpcAgreement {
  std::optional<DeviceId> peer = {};  ///< its GPU; nothing: through the host
  std::string why_not = {};           ///< where there is no peer
};

/// Greets the peer, which does the same now, on the thread that uses the link.
/// `mine` without a refusal has memory of `device`; with one, `device` may be
/// nullptr. Throws LinkError as receive() does.
IpcAgreement greet_over(const Link& link, const IpcHello& mine,
                        IpcDevice* device);

}  // namespace sluice
