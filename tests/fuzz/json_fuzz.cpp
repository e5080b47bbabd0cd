// Whatever a file of JSON holds: a value of bounded depth, which may be part of
// a config, or a UserError.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "experiments/config/files/json.h"
#include "experiments/config/files/json_file.h"
#include "experiments/config/files/toml.h"
#include "lib/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const auto json = sluice::parse_json(text, "fuzz");
    const sluice::ConfigNode node = sluice::config_of_json(json);
    static_cast<void>(node.literal());
  } catch (const sluice::UserError&) {
    return 0;  // any damage may be refused
  }
  return 0;
}
