// Whatever comes as the greeting of a GPU: it is refused, or it is one that
// encode_ipc_hello() writes.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "lib/base/error.h"
#include "transport/shared/ipc_greeting.h"

namespace sluice {
namespace {

void check_greeting(std::span<const std::byte> bytes) {
  IpcHello hello;
  try {
    hello = decode_ipc_hello(bytes);
  } catch (const LinkError&) {
    return;
  }
  const std::vector<std::byte> again = encode_ipc_hello(hello);
  if (again != std::vector<std::byte>(bytes.begin(), bytes.end())) std::abort();
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  sluice::check_greeting(std::as_bytes(std::span(data, size)));
  return 0;
}
