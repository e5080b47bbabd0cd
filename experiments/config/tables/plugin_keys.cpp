#include "experiments/config/tables/plugin_keys.h"

#include <cstddef>
#include <filesystem>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "experiments/config/files/named_paths.h"
#include "experiments/plugins/library.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// The paths that a command or file says are kept as those of the file system,
/// links included: a link to the newest build goes on naming it.
std::string absolute_in(const fs::path& folder, const std::string& path) {
  return fs::absolute(folder / path).lexically_normal().string();
}

/// One plug-in is written without brackets, too.
ConfigNode::Array entries_of(const ConfigNode& written) {
  if (const auto* list = std::get_if<ConfigNode::Array>(&written.value))
    return *list;
  if (std::holds_alternative<std::monostate>(written.value)) return {};
  return {written};
}

/// A path, or a table of a resolved config.
PluginFile file_of(const ConfigNode& entry, std::size_t index) {
  PluginFile file;
  if (const auto* path = std::get_if<std::string>(&entry.value)) {
    file.path = *path;
  } else {
    if (!std::holds_alternative<ConfigNode::Table>(entry.value))
      throw UserError(
          "{}: plugins[{}]: expected the path of a shared library, found {}",
          entry.origin.text(), index, entry.describe());
    Fields fields(&entry, fmt::format("plugins[{}]", index));
    fields.key("path", file.path, {});
    fields.key("sha256", file.sha256, {});
    fields.finish();
  }
  if (file.path.empty())
    throw UserError("{}: plugins[{}]: the path of a shared library is missing",
                    entry.origin.text(), index);
  file.path = absolute_in(folder_of(entry.origin), file.path);
  return file;
}

ConfigNode resolved_of(const PluginFile& file) {
  ConfigNode entry = {.value = ConfigNode::Table{}};
  entry.set("path", {.value = file.path});
  entry.set("sha256", {.value = file.sha256});
  return entry;
}

/// Whether the entry can be read, and means that file.
bool means_file(const ConfigNode& entry, const std::string& path) {
  const ConfigNode* node = entry.find("path");
  const auto* written =
      std::get_if<std::string>(node == nullptr ? &entry.value : &node->value);
  return written != nullptr &&
         absolute_in(folder_of(entry.origin), *written) == path;
}

}  // namespace

ConfigNode read_plugins(Fields& top) {
  ConfigNode written;
  top.key("plugins", written, "text | list of texts",
          {.text = "shared libraries with heads, models, data sets and other "
                   "parts of one's own, which the rest of the config may name; "
                   "paths are relative to the config's folder"});
  ConfigNode::Array resolved;
  for (const ConfigNode& entry : entries_of(written)) {
    const PluginFile file = file_of(entry, resolved.size());
    try {
      resolved.push_back(resolved_of(load_plugin(file)));
    } catch (const UserError& error) {
      top.reject("plugins", error.what());
    }
  }
  if (resolved.empty()) return {};
  return {.value = std::move(resolved), .origin = written.origin};
}

void add_plugins(const std::vector<std::string>& paths, ConfigNode& config) {
  if (paths.empty()) return;
  const ConfigNode* written = config.find("plugins");
  ConfigNode::Array all =
      written == nullptr ? ConfigNode::Array{} : entries_of(*written);
  const Origin origin = {.file = "command line", .layer = kCommandLineLayer};
  for (const std::string& path : paths) {
    const std::string absolute = absolute_in({}, path);
    std::erase_if(all, [&](const ConfigNode& entry) {
      return means_file(entry, absolute);
    });
    all.push_back({.value = absolute, .origin = origin});
  }
  config.set("plugins", {.value = std::move(all), .origin = origin});
}

std::string plugins_override(const std::vector<std::string>& paths) {
  std::string list;
  for (const std::string& path : paths)
    list += (list.empty() ? "" : ", ") + toml_string(absolute_in({}, path));
  return fmt::format("plugins=[{}]", list);
}

void load_plugins(const std::vector<std::string>& paths) {
  for (const std::string& path : paths)
    load_plugin({.path = absolute_in({}, path)});
}

}  // namespace sluice
