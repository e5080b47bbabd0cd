// Whatever comes over a control link: nothing, or a struct that says the same
// bytes.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lib/engines/control_codec.h"

namespace sluice {
namespace {

template <class T>
void check(std::string_view bytes) {
  const auto said = control::decoded<T>(bytes);
  if (said && control::encoded(*said) != bytes) std::abort();
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  sluice::check<sluice::Grant>(bytes);
  sluice::check<sluice::Failure>(bytes);
  sluice::check<sluice::Progress>(bytes);
  sluice::check<sluice::Observation>(bytes);
  sluice::check<sluice::ClockAnswer>(bytes);
  return 0;
}
