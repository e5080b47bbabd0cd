#include "lib/checkpoints/set_aside.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "lib/base/error.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/checkpoints/finite.h"
#include "lib/checkpoints/safetensors.h"
#include "lib/checkpoints/safetensors_header.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNotFiniteEnding = ".not-finite";

/// Files of a checkpoint and of its replicas, or that one file; sorted. Throws
/// UserError where the folder isn't there, or goes meanwhile.
std::vector<fs::path> files_of(const std::string& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) return {path};
  std::vector<fs::path> files;
  for (fs::recursive_directory_iterator entry(path, error), end;
       !error && entry != end; entry.increment(error))
    if (entry->path().extension() == ".safetensors")
      files.push_back(entry->path());
  if (error) throw UserError("{}: can't be read: {}", path, error.message());
  std::sort(files.begin(), files.end());
  return files;
}

/// The first tensor that `name_in` names, in the order of the files.
std::string first_in_files(
    const std::string& path,
    const std::function<std::string(const std::string& file)>& name_in) {
  for (const fs::path& file : files_of(path)) {
    const std::string name = name_in(file.string());
    if (name.empty()) continue;
    const fs::path place = fs::is_directory(path)
                               ? file.lexically_relative(path)
                               : file.filename();
    return fmt::format("tensor '{}' of {}", name, place.string());
  }
  return "";
}

std::string noted_in(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::error_code error;
  const std::uintmax_t bytes = fs::file_size(file, error);
  if (error) throw UserError("{}: can't be read: {}", file, error.message());
  for (const SafetensorsEntry& entry :
       read_safetensors_header(stream, file, bytes))
    if (!entry.is_noted_finite) return entry.name;
  return "";
}

std::string not_finite_in(const std::string& file) {
  try {
    return first_not_finite(read_safetensors(file));
  } catch (const UserError&) {
    return "";  // whoever needs the file says what is wrong with it
  }
}

/// The turn of a folder that was set aside; nothing for other names.
std::optional<std::int64_t> turn_set_aside(const fs::path& folder) {
  if (folder.extension() != kNotFiniteEnding) return std::nullopt;
  return turn_of(folder.stem().string());
}

}  // namespace

std::string noted_not_finite(const std::string& checkpoint) {
  return first_in_files(checkpoint, noted_in);
}

std::string find_not_finite(const std::string& path) {
  return first_in_files(path, not_finite_in);
}

bool is_set_aside(const std::string& folder) {
  return turn_set_aside(folder).has_value();
}

std::string set_aside(const std::string& checkpoint) {
  std::string folder = checkpoint + kNotFiniteEnding;
  const std::string checkpoints = fs::path(checkpoint).parent_path().string();
  std::error_code error;
  while (const auto older = find_set_aside(checkpoints)) {
    fs::remove_all(older->folder, error);
    if (error) break;
  }
  if (!error) fs::rename(checkpoint, folder, error);
  if (error) throw UserError("{}: can't be made: {}", folder, error.message());
  return folder;
}

std::optional<AsideCheckpoint> find_set_aside(const std::string& checkpoints) {
  std::optional<AsideCheckpoint> newest;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(checkpoints, error)) {
    const auto turn = turn_set_aside(entry.path());
    if (turn && (!newest || *turn > newest->turn))
      newest = AsideCheckpoint{*turn, entry.path().string()};
  }
  return newest;
}

}  // namespace sluice
