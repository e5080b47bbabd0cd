#include "transport/shared/ipc_parcel.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "lib/base/error.h"
#include "transport/wire/bytes.h"
#include "transport/wire/frame.h"

namespace sluice {
namespace {

constexpr std::uint32_t kParcelMagic = 0x1C504C53;  // "SLP" and a version

template <std::size_t N>
void put(const std::array<std::byte, N>& bytes, ByteWriter& out) {
  out.put_text({reinterpret_cast<const char*>(bytes.data()), N});
}

template <std::size_t N>
void take(ByteReader& in, std::array<std::byte, N>& bytes) {
  const std::string text = in.take_text(N);
  std::memcpy(bytes.data(), text.data(), N);
}

// Writes kMaxDimensions numbers; those of dimensions that the tensor doesn't
// have are 0.
void put(const std::vector<std::int64_t>& numbers, ByteWriter& out) {
  for (std::size_t i = 0; i < kMaxDimensions; ++i)
    out.put(i < numbers.size() ? numbers[i] : std::int64_t{0});
}

std::vector<std::int64_t> take_ipc_numbers(ByteReader& in, std::size_t count) {
  std::vector<std::int64_t> numbers(count);
  for (std::int64_t& number : numbers) number = in.take<std::int64_t>();
  in.take_zeros((kMaxDimensions - count) * sizeof(std::int64_t));
  return numbers;
}

std::uint64_t bytes_of_shape(const Parcel& parcel) {
  try {
    return stored_bytes(parcel.dtype, parcel.sizes, parcel.strides);
  } catch (const UserError& error) {
    throw LinkError("parcel of a GPU: {}", error.what());
  }
}

}  // namespace

void write_parcel(const Parcel& parcel, std::span<std::byte> place) {
  SLUICE_CHECK(parcel.sizes.size() <= kMaxDimensions &&
                   parcel.sizes.size() == parcel.strides.size() &&
                   place.size() == kParcelBytes,
               "a parcel of {} dimensions in {} bytes", parcel.sizes.size(),
               place.size());
  ByteWriter out;
  out.put(kParcelMagic);
  out.put(static_cast<std::uint8_t>(parcel.dtype));
  out.put(static_cast<std::uint8_t>(parcel.sizes.size()));
  out.put(std::uint16_t{0});
  out.put(parcel.bytes);
  put(parcel.device, out);
  put(parcel.memory.bytes, out);
  put(parcel.ready.bytes, out);
  put(parcel.taken.bytes, out);
  put(parcel.sizes, out);
  put(parcel.strides, out);
  out.pad_to(kParcelBytes);
  const std::vector<std::byte> bytes = out.take();
  std::copy(bytes.begin(), bytes.end(), place.begin());
}

Parcel read_parcel(std::span<const std::byte> bytes) {
  if (bytes.size() != kParcelBytes)
    throw LinkError("parcel of a GPU in {} bytes; it has {}", bytes.size(),
                    kParcelBytes);
  // Copied first: the peer can write the bytes, so they must be read only once.
  const std::vector<std::byte> copy(bytes.begin(), bytes.end());
  ByteReader in(copy);
  if (in.take<std::uint32_t>() != kParcelMagic)
    throw LinkError("parcel of a GPU: it begins with another number");
  Parcel parcel;
  const auto dtype = in.take<std::uint8_t>();
  const auto dimensions = in.take<std::uint8_t>();
  if (!is_dtype(dtype) || dimensions > kMaxDimensions)
    throw LinkError("parcel of a GPU: element type {}, {} dimensions", dtype,
                    dimensions);
  parcel.dtype = static_cast<DType>(dtype);
  in.take_zeros(sizeof(std::uint16_t));
  parcel.bytes = in.take<std::uint64_t>();
  take(in, parcel.device);
  take(in, parcel.memory.bytes);
  take(in, parcel.ready.bytes);
  take(in, parcel.taken.bytes);
  parcel.sizes = take_ipc_numbers(in, dimensions);
  parcel.strides = take_ipc_numbers(in, dimensions);
  in.take_zeros(in.left());
  const std::uint64_t shape = bytes_of_shape(parcel);
  if (parcel.bytes != shape || shape == 0 ||
      shape > FrameLimits{}.max_payload_bytes)
    throw LinkError("parcel of a GPU: {} bytes of a tensor that has {}",
                    parcel.bytes, shape);
  return parcel;
}

}  // namespace sluice
