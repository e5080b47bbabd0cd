#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <c10/core/Device.h>

#include "lib/base/messages/message.h"
#include "lib/boundaries/boundary.h"
#include "lib/boundaries/codecs/coded.h"
#include "lib/schedules/plan/plan.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// Payload that goes down a boundary for a batch.
struct DownPayload {
  std::vector<Tensors> gradients = {};  ///< by GradientPart::leaving
  Tensors answer = {};                  ///< Upper::answer()
  Tensors returned = {};  ///< the input, GradientFlow::returns_input
  /// Float64 [N], on the host: the last block's loss of each sample, on its way
  /// to the source. Undefined where no source asks.
  at::Tensor losses = {};

  std::int64_t bytes() const;
};

/// Name of an upper end's answer, in messages and checkpoints.
inline constexpr const char* kAnswer = "answer";
/// Name of the input that goes down again.
inline constexpr const char* kReturned = "returned";
/// Name of DownPayload::losses.
inline constexpr const char* kLosses = "losses";
/// Name of a gradient that leaves this way, in messages and checkpoints.
std::string gradient_name(std::size_t way);

// Messages of a boundary. A coding is that of the boundary's codec for this
// direction; without one tensors go as they are. Through it go activations, of
// evaluations too, and all gradients at h_k; what upper ends answer beside
// them, inputs that go down again, losses, labels and attachments don't.

/// Puts h_k, the labels and the attachments of those names into a message.
void pack_up(const Tensors& outputs, const Payload& fed,
             const std::vector<std::string>& attachments, const Coding& coding,
             Message& message);
/// The inverse; features on the device. `plan` of the block that takes it says
/// which attachments.
Payload unpack_up(const Message& message, const BlockPlan& plan,
                  const Coding& coding, const c10::Device& device);

void pack_down(const DownPayload& down, const Coding& coding, Message& message);
/// `sender`: the plan of the block above.
DownPayload unpack_down(const Message& message, const BlockPlan& sender,
                        const Coding& coding, const c10::Device& device);

}  // namespace sluice
