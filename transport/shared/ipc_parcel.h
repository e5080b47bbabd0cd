#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "lib/base/ipc_device.h"

namespace sluice {

/// Stands in the place of a tensor that stays on a GPU: where it lies, and the
/// events that say when it may be read and when it has been. README.md has the
/// table.
struct Parcel {
  DeviceId device = {};     ///< whose memory and events these are
  IpcHandle memory = {};    ///< the tensor is at its beginning
  IpcHandle ready = {};     ///< recorded when it lies there
  IpcHandle taken = {};     ///< to be recorded when it was copied out
  std::uint64_t bytes = 0;  ///< that are stored of it
  DType dtype = DType::float32;
  std::vector<std::int64_t> sizes = {};
  std::vector<std::int64_t> strides = {};
};

inline constexpr std::size_t kParcelBytes = 384;

/// Prefix of the name of a tensor whose bytes are a parcel.
inline constexpr std::string_view kParcelMark = "ipc:";

/// `place` has kParcelBytes.
void write_parcel(const Parcel& parcel, std::span<std::byte> place);

/// Throws LinkError for anything that write_parcel() doesn't write: other
/// lengths, no such type or shape, bytes that are not those of the shape or
/// more than a message may have.
Parcel read_parcel(std::span<const std::byte> bytes);

}  // namespace sluice
