#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace sluice {

/// Every buffer that reaches a layer starts on such a boundary (bytes): the
/// bits of a small matrix product depend on it.
inline constexpr std::size_t kAlignment = 64;

/// Where bytes live. `index` counts devices of one kind. What LibTorch alone
/// knows how to reach, such as Intel's GPUs, is `other`.
struct Device {
  enum class Kind : std::uint8_t { cpu, cuda, other };
  Kind kind = Kind::cpu;
  int index = 0;

  bool operator==(const Device&) const = default;
};

/// Bytes with shared ownership. A value: copies share the memory, which is
/// released with the last of them. Holders of a Buffer only read it.
struct Buffer {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  Device device = {};
  std::shared_ptr<void> owner = nullptr;
  /// Blocks until the bytes may be read (a GPU copy may be under way); empty
  /// when they are ready now.
  std::function<void()> wait_ready = nullptr;
  /// Whether the bytes may be read; set where wait_ready is and the device can
  /// say so. A caller with time polls it: wait_ready may keep a core busy.
  std::function<bool()> is_ready = nullptr;
};

/// Aligned host memory, not initialised. Throws std::bad_alloc.
Buffer allocate_buffer(std::size_t bytes);

/// Supplies memory to receive into: `bytes` of it, aligned to kAlignment.
/// Called from the thread that receives.
using BufferSource = std::function<Buffer(std::size_t bytes)>;

/// Element types that may cross a boundary; the values are the wire's.
enum class DType : std::uint8_t {
  float32 = 1,
  float64 = 2,
  float16 = 3,
  bfloat16 = 4,
  int64 = 5,
  int32 = 6,
  int16 = 7,
  int8 = 8,
  uint8 = 9,
  boolean = 10,
};

/// Bytes of one element. Throws InternalError for a value that is no DType.
std::size_t size_of(DType dtype);
bool is_dtype(std::uint8_t value);

/// Most dimensions that a tensor on the wire may have.
inline constexpr std::size_t kMaxDimensions = 8;

/// A named tensor as bytes: no LibTorch. Strides are in elements and dense: the
/// dimensions of stride != 0 are a permutation of a contiguous block; one of
/// stride 0 is repeated and stored once. `buffer.bytes` is stored_bytes().
struct TensorView {
  std::string name = {};
  DType dtype = DType::float32;
  std::vector<std::int64_t> sizes = {};
  std::vector<std::int64_t> strides = {};
  Buffer buffer = {};
};

/// Bytes that are stored for such a tensor: the product of the sizes whose
/// stride is not 0, times the element's size (0 when any size is 0).
/// Throws UserError when the shape is not one that TensorView allows:
/// negative or overflowing sizes, strides that are not dense.
std::size_t stored_bytes(DType dtype, const std::vector<std::int64_t>& sizes,
                         const std::vector<std::int64_t>& strides);

}  // namespace sluice
