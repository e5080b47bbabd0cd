#include "experiments/config/files/extends.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/config/files/about.h"
#include "experiments/config/files/common_keys.h"
#include "experiments/config/files/nesting.h"
#include "experiments/config/files/run_config.h"
#include "experiments/config/files/toml.h"
#include "lib/base/config.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

constexpr std::string_view kExtends = "extends";
constexpr std::size_t kMostFiles = 256;
constexpr std::size_t kLongestChain = 32;

/// Takes the key `extends` out of `root`, and returns the files that it names.
std::vector<std::string> take_bases(ConfigNode& root) {
  std::vector<std::string> bases;
  ConfigNode only_extends = {ConfigNode::Table{}, root.origin};
  if (const ConfigNode* node = root.find(kExtends)) {
    only_extends.set(kExtends, *node);
  }
  Fields(&only_extends, "").key(kExtends, bases, {});
  std::erase_if(std::get<ConfigNode::Table>(root.value),
                [](const auto& entry) { return entry.first == kExtends; });
  return bases;
}

std::size_t values_in(const ConfigNode& node) {
  std::size_t count = 1;
  if (const auto* array = std::get_if<ConfigNode::Array>(&node.value))
    for (const ConfigNode& element : *array) count += values_in(element);
  if (const auto* table = std::get_if<ConfigNode::Table>(&node.value))
    for (const auto& [key, below] : *table) count += values_in(below);
  return count;
}

/// Reads a file and what it extends. Files that name others twice are read
/// twice, so few files could stand for very many.
class ExtendedFile {
 public:
  /// Reads a file and those that it extends. `chain`: the files that led here.
  ConfigNode read(const std::string& path, std::vector<std::string> chain) {
    std::error_code ignored;  // read_toml_file() has the better message
    const std::string name =
        std::filesystem::weakly_canonical(path, ignored).string();
    const bool again =
        std::find(chain.begin(), chain.end(), name) != chain.end();
    chain.push_back(name);
    if (again) {
      throw UserError("extends: a file inherits from itself: {}",
                      fmt::join(chain, " -> "));
    }
    ConfigNode root = read_counted(path, chain);
    const ConfigNode* node = root.find(kExtends);
    const Origin origin = node == nullptr ? Origin{} : node->origin;
    ConfigNode result = {ConfigNode::Table{}, root.origin};
    for (const std::string& base : take_bases(root)) {
      const auto file = std::filesystem::path(path).parent_path() / base;
      if (!std::filesystem::exists(file, ignored)) {
        throw UserError("{}: extends: there is no file '{}'", origin.text(),
                        file.string());
      }
      result = laid_over(result, read(file.string(), chain));
    }
    if (is_config_of_run(path)) {
      add_values_of_old_run(root);
      if (chain.size() > 1) root = with_common_keys(std::move(root));
    }
    return laid_over(result, std::move(root));
  }

 private:
  ConfigNode read_counted(const std::string& path,
                          const std::vector<std::string>& chain) {
    if (chain.size() > kLongestChain)
      throw UserError("{}: extends: leads through more than {} files", path,
                      kLongestChain);
    if (++files_ > kMostFiles)
      throw UserError(
          "{}: extends: more than {} files are read for {}, one that is named "
          "twice twice; name fewer",
          path, kMostFiles, chain.front());
    ConfigNode root = read_toml_file(path);
    values_ += values_in(root);
    if (values_ > kMostValues)
      throw UserError(
          "{}: extends: the files that {} extends have more than {} values",
          path, chain.front(), kMostValues);
    take_about(root);
    return root;
  }

  std::size_t files_ = 0;
  std::size_t values_ = 0;
};

}  // namespace

ConfigNode read_config_file(const std::string& path) {
  return ExtendedFile().read(path, {});
}

ConfigNode laid_over(const ConfigNode& base, ConfigNode over) {
  const auto* table = std::get_if<ConfigNode::Table>(&base.value);
  if (table != nullptr && !table->empty()) over.raise(base.layer() + 1);
  ConfigNode result = merged(base, over);
  hold_for_all(base, over, result);
  return result;
}

ConfigNode merged(const ConfigNode& base, const ConfigNode& over) {
  const auto* table = std::get_if<ConfigNode::Table>(&over.value);
  if (table == nullptr ||
      !std::holds_alternative<ConfigNode::Table>(base.value) ||
      std::get<ConfigNode::Table>(base.value).empty()) {
    return over;
  }
  ConfigNode result = {base.value, over.origin};
  for (const auto& [key, node] : *table) {
    const ConfigNode* below = base.find(key);
    result.set(key, below == nullptr ? node : merged(*below, node));
  }
  return result;
}

}  // namespace sluice
