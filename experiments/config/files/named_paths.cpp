#include "experiments/config/files/named_paths.h"

#include <array>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "lib/base/error.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// A key whose value is a path, or a list of paths.
struct PathKey {
  std::string_view table = {};  ///< empty: at the top
  std::string_view key = {};
  /// Row of data sets for which the key is a path; empty: all.
  std::string_view data_set = {};
};

constexpr std::array<PathKey, 7> kPathKeys = {{{"data", "file"},
                                               {"data", "folder"},
                                               {"data", "tokenizer_model"},
                                               {"data", "train", "tensors"},
                                               {"data", "test", "tensors"},
                                               {"model", "file"},
                                               {"", "initial_weights"}}};

std::string name_in(const ConfigNode& table) {
  const ConfigNode* name = table.find("name");
  const auto* text =
      name == nullptr ? nullptr : std::get_if<std::string>(&name->value);
  return text == nullptr ? "" : *text;
}

bool is_there(const fs::path& path) {
  std::error_code none;
  return fs::exists(path, none) || fs::exists(path.string() + ".gz", none);
}

/// The path beside the file that names it; nothing: it is absolute, or isn't
/// there.
std::optional<std::string> beside(const ConfigNode& node,
                                  const std::string& path) {
  if (path.empty() || fs::path(path).is_absolute()) return std::nullopt;
  const fs::path found = fs::absolute(folder_of(node.origin) / path);
  if (!is_there(found)) return std::nullopt;
  return found.lexically_normal().string();
}

/// Visits a text that is a path, or a list of such texts; passes over other
/// values.
void visit_texts(ConfigNode& node,
                 const std::function<void(ConfigNode&)>& visit) {
  if (auto* list = std::get_if<ConfigNode::Array>(&node.value))
    for (ConfigNode& each : *list) visit_texts(each, visit);
  if (std::holds_alternative<std::string>(node.value)) visit(node);
}

void check_script_is_there(const ConfigNode& config) {
  const ConfigNode* model = config.find("model");
  const ConfigNode* file = model == nullptr ? nullptr : model->find("file");
  const auto* path =
      file == nullptr ? nullptr : std::get_if<std::string>(&file->value);
  if (path == nullptr || path->empty() || is_there(*path)) return;
  if (fs::path(*path).is_absolute())
    throw UserError("{}: model.file: no file {}", file->origin.text(), *path);
  throw UserError(
      "{}: model.file: no file {}, and no {} in the current folder, {}",
      file->origin.text(),
      fs::absolute(folder_of(file->origin) / *path).lexically_normal().string(),
      *path, fs::current_path().string());
}

}  // namespace

fs::path folder_of(const Origin& origin) {
  std::error_code none;
  if (!fs::is_regular_file(origin.file, none)) return {};
  return fs::path(origin.file).parent_path();
}

void visit_named_paths(ConfigNode& config,
                       const std::function<void(ConfigNode&)>& visit) {
  auto* top = std::get_if<ConfigNode::Table>(&config.value);
  if (top == nullptr) return;
  for (auto& [name, node] : *top) {
    auto* table = std::get_if<ConfigNode::Table>(&node.value);
    const std::string row = table == nullptr ? "" : name_in(node);
    for (const PathKey& each : kPathKeys) {
      if (each.table.empty() && each.key == name) visit_texts(node, visit);
      if (table == nullptr || each.table != name) continue;
      if (!each.data_set.empty() && each.data_set != row) continue;
      for (auto& [key, value] : *table)
        if (key == each.key) visit_texts(value, visit);
    }
  }
}

ConfigNode with_named_paths(ConfigNode config) {
  visit_named_paths(config, [](ConfigNode& node) {
    if (auto found = beside(node, std::get<std::string>(node.value)))
      node.value = *std::move(found);
  });
  check_script_is_there(config);
  return config;
}

}  // namespace sluice
