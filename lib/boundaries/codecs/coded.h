#pragma once

#include <string_view>

#include <c10/core/Device.h>

#include "lib/base/messages/message.h"
#include "lib/boundaries/codecs/codec.h"
#include "lib/tensors/tensors.h"

namespace sluice {

// What crosses a boundary with a codec. A codec of nullptr leaves tensors as
// they are; so do all codecs with tensors that they don't take, integers among
// them.

/// Adds the tensors as pack() of lib/tensors/pack.h does; of one that is
/// encoded, its parts as "<name>.0.0", "<name>.0.1", ... and an empty tensor of
/// its type as
/// "<name>.0.like". A repeated dimension (stride 0) is encoded once. float64 is
/// rounded to float32 first, and so are tensors that lie with gaps laid dense.
void pack(const Tensors& tensors, std::string_view name, const Codec* codec,
          Message& message);

/// The tensors that were packed so under the name, in order, in their types and
/// sizes, and with the strides that they would have without a codec. Throws
/// LinkError for parts that the codec can't have made.
/// They lie on `device`, where they are decoded.
Tensors unpack(const Message& message, std::string_view name,
               const Codec* codec,
               const c10::Device& device = c10::DeviceType::CPU);

/// The tensors after pack() and unpack(), for code that computes without
/// messages.
Tensors as_received(const Tensors& tensors, const Codec* codec);

}  // namespace sluice
