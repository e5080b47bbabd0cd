// `sluice config`.
#include <fmt/format.h>

#include "experiments/config/files/common_keys.h"
#include "experiments/config/files/toml.h"
#include "experiments/program/commands.h"

namespace sluice {

void config_command(const ConfigArguments& arguments) {
  ConfigArguments read = arguments;
  // The first argument may be an override: a config isn't required.
  if (read.config.find('=') != std::string::npos) {
    read.overrides.insert(read.overrides.begin(), read.config);
    read.config.clear();
  }
  fmt::print(
      "{}", to_toml(with_common_keys(read_to_start(config_of(read)).resolved)));
}

}  // namespace sluice
