// Whatever a rank says of what it was started with: terms or a LinkError, and
// terms that can be written and read again, and compared.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "experiments/runs/ranks/terms.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

void check(std::string_view text) {
  try {
    const Terms terms = terms_from(text);
    const Terms again = terms_from(to_text(terms));
    if (!why_refused(terms, again, 1, true).empty()) std::abort();
    why_refused(Terms{}, terms, 1, true);
  } catch (const LinkError&) {
    return;  // anything may be refused
  }
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  sluice::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
