// Whatever lies in a slot: a parcel is refused, or it is one that
// write_parcel() writes, of a tensor that may be.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "lib/base/error.h"
#include "transport/shared/ipc_parcel.h"

namespace sluice {
namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void check(std::span<const std::byte> bytes) {
  Parcel parcel;
  try {
    parcel = read_parcel(bytes);
  } catch (const LinkError&) {
    return;
  }
  require(parcel.bytes > 0 &&
          parcel.bytes ==
              stored_bytes(parcel.dtype, parcel.sizes, parcel.strides));
  std::vector<std::byte> again(kParcelBytes);
  write_parcel(parcel, again);
  require(std::vector<std::byte>(bytes.begin(), bytes.end()) == again);
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  sluice::check(std::as_bytes(std::span(data, size)));
  return 0;
}
