// Whatever a pickle of a TorchScript file holds: it is passed, or refused in a
// UserError of one line.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "lib/base/error.h"
#include "modules/script/script_pickle.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  try {
    sluice::check_script_pickle(
        {reinterpret_cast<const char*>(data), size}, "fuzz", "data.pkl",
        [](const std::string& key) -> std::uint64_t { return key.size() * 8; });
  } catch (const sluice::UserError& error) {
    if (std::string_view(error.what()).find('\n') != std::string_view::npos)
      std::abort();
  }
  return 0;
}
