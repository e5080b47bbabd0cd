#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "lib/base/messages/message.h"
#include "lib/boundaries/codecs/codec.h"
#include "lib/tensors/tensors.h"

namespace sluice {

// What crosses a boundary with a codec. A codec of nullptr leaves tensors as
// they are; so do all codecs with tensors that they don't take, integers among
// them.

/// How the tensors of a message are written, or read.
struct Coding {
  Coding(const Codec* codec) : codec(codec) {}
  Coding(const Codec* codec, CodecEnd* end, std::int64_t slot,
         at::Tensor samples)
      : codec(codec), end(end), slot(slot), samples(std::move(samples)) {}

  const Codec* codec = nullptr;
  CodecEnd* end = nullptr;  ///< the codec's; nullptr: without a state
  std::int64_t slot = 0;    ///< CodedPlace's
  at::Tensor samples = {};  ///< CodedPlace's
};

/// Adds the tensors as pack() of lib/tensors/pack.h does; of one that is
/// encoded, its parts as "<name>.0.0", "<name>.0.1", ... and an empty tensor of
/// its type as
/// "<name>.0.like". A repeated dimension (stride 0) is encoded once, but for
/// that of the samples where an end remembers something of each. float64 is
/// rounded to float32 first, and so are tensors that lie with gaps laid dense.
void pack(const Tensors& tensors, std::string_view name, const Coding& coding,
          Message& message);

/// The tensors that were packed so under the name, in order, in their types and
/// sizes, and with the strides that they would have without a codec. Throws
/// LinkError for parts that the codec can't have made.
/// They lie on `device`, where they are decoded.
Tensors unpack(const Message& message, std::string_view name,
               const Coding& coding,
               const c10::Device& device = c10::DeviceType::CPU);

/// Gradients at activations that came through a codec, in their order: 0 where
/// it says that nothing was sent (Codec::sent_of()).
Tensors masked(const Tensors& gradients, const Tensors& came,
               const Codec* codec);

/// The tensors after pack() and unpack(), for code that computes without
/// messages.
Tensors as_received(const Tensors& tensors, const Codec* codec);

}  // namespace sluice
