#include "experiments/config/files/run_config.h"

#include <filesystem>
#include <system_error>
#include <utility>
#include <variant>

namespace sluice {

namespace fs = std::filesystem;

bool is_config_of_run(const std::string& path) {
  const fs::path file(path);
  std::error_code ignored;  // one that can't be looked for isn't there
  return file.filename() == "config.toml" &&
         fs::exists(file.parent_path() / "run.json", ignored);
}

void add_values_of_old_run(ConfigNode& config) {
  if (config.find("masks") == nullptr)
    config.set("masks", {std::int64_t{1}, config.origin});
  const ConfigNode* found = config.find("replicas");
  if (found == nullptr || found->find("deal") != nullptr) return;
  ConfigNode replicas = *found;
  if (std::holds_alternative<ConfigNode::Table>(replicas.value)) {
    replicas.set("deal", {"shares", config.origin});
    config.set("replicas", std::move(replicas));
  }
}

}  // namespace sluice
