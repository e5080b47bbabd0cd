#include "experiments/plugins/library.h"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <string_view>

#include <dlfcn.h>

#include "experiments/data/files/sha256.h"
#include "experiments/plugins/crash_note.h"
#include "experiments/plugins/elf_sizes.h"
#include "experiments/plugins/registration.h"
#include "experiments/plugins/stamp.h"
#include "lib/base/error.h"
#include "lib/base/files/read_file.h"
#include "lib/base/printable.h"

namespace sluice {
namespace {

using Register = void(Plugin& plugin);

constexpr std::uint64_t kMostBytes = std::uint64_t{4} << 30;
constexpr std::size_t kLongestStamp = 256;

/// Plug-ins that this process has loaded. As the loaded libraries themselves,
/// there is one such thing in a process.
struct LoadedPlugins {
  std::mutex mutex;  // guards all below, and is held while one is loaded
  std::map<std::string, std::string> hash_by_path;
};

LoadedPlugins& loaded_plugins() {
  static LoadedPlugins loaded;
  return loaded;
}

/// The stamp in the bytes of a library; empty: there is none.
std::string stamp_in(std::string_view bytes) {
  const std::size_t begin = bytes.find(SLUICE_STAMP_BEGIN);
  if (begin == std::string_view::npos) return "";
  const std::string_view rest = bytes.substr(begin, kLongestStamp);
  return std::string(rest.substr(0, rest.find('\0')));
}

/// A stamp without the text that all stamps begin with.
std::string_view shown(std::string_view stamp) {
  return stamp.substr(std::string_view(SLUICE_STAMP_BEGIN).size());
}

void check_stamp(const std::string& path) {
  const std::string bytes = read_file(path, kMostBytes);
  const std::string stamp = stamp_in(bytes);
  if (stamp.empty())
    throw UserError(
        "{}: is no plug-in of Sluice: it has no SLUICE_PLUGIN(plugin) {{...}} "
        "(sluice new plugin NAME writes one that has)",
        path);
  if (stamp != SLUICE_PLUGIN_STAMP)
    throw UserError(
        "{}: was built for {}, but this program is {}: build the plug-in anew "
        "against this Sluice and its LibTorch",
        path, shown(stamp), shown(SLUICE_PLUGIN_STAMP));
  const std::string reason = why_cut_short(bytes);
  if (!reason.empty())
    throw UserError(
        "{}: is a part of a shared library, or a damaged one: {}; build or "
        "copy the plug-in anew",
        path, reason);
}

void check_hash(const PluginFile& wanted, const std::string& found) {
  if (wanted.sha256.empty() || wanted.sha256 == found) return;
  throw UserError(
      "{}: has the SHA-256 {:.12}..., and the run was made with {:.12}...: put "
      "that build back, or take the new one with --plugin {}",
      wanted.path, found, wanted.sha256, wanted.path);
}

/// dlopen()'s reason, which may begin with the path.
std::string loader_error(const std::string& path) {
  const char* text = ::dlerror();  // NOLINT(concurrency-mt-unsafe): locked
  std::string reason = text == nullptr ? "for no reason that is told" : text;
  if (reason.starts_with(path + ": ")) reason.erase(0, path.size() + 2);
  return reason;
}

Register* entry_of(const std::string& path) {
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    throw UserError(
        "{}: can't be loaded: {}; a plug-in may use what Sluice's headers "
        "declare, and has to be linked with all else",
        path, loader_error(path));
  void* found = ::dlsym(library, "sluice_register");
  if (found == nullptr)
    throw UserError(
        "{}: has no function sluice_register: begin it with "
        "SLUICE_PLUGIN(plugin), outside of any namespace",
        path);
  return reinterpret_cast<Register*>(found);
}

void register_rows(const std::string& path, Register* entry) {
  Plugin plugin;
  try {
    entry(plugin);
  } catch (const UserError& error) {
    throw UserError("{}: {}", path, error.what());
  } catch (const std::exception& error) {
    throw UserError("{}: failed while it registered its parts: {}", path,
                    error.what());
  } catch (...) {
    throw UserError(
        "{}: failed while it registered its parts: it threw what is no "
        "std::exception",
        path);
  }
  plugin.add_to_tables();
}

void check_is_there(const std::string& path) {
  try {
    check_regular_file(path);
  } catch (const UserError& error) {
    throw UserError(
        "{}; build the plug-in, or say where it lies (a path in a config is "
        "relative to the config's folder)",
        error.what());
  }
}

bool has_hash(const LoadedPlugins& loaded, const std::string& hash) {
  for (const auto& [path, other] : loaded.hash_by_path)
    if (other == hash) return true;
  return false;
}

}  // namespace

PluginFile load_plugin(const PluginFile& file) {
  LoadedPlugins& loaded = loaded_plugins();
  const std::lock_guard lock(loaded.mutex);
  const auto before = loaded.hash_by_path.find(file.path);
  if (before != loaded.hash_by_path.end()) {
    check_hash(file, before->second);
    return {file.path, before->second};
  }
  check_is_there(file.path);
  const std::string hash = sha256_of_file(file.path);
  check_hash(file, hash);
  if (!has_hash(loaded, hash)) {
    check_stamp(file.path);
    const CrashNote note(printable(file.path));
    register_rows(file.path, entry_of(file.path));
  }
  loaded.hash_by_path[file.path] = hash;
  return {file.path, hash};
}

}  // namespace sluice
