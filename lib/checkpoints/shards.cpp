#include "lib/checkpoints/shards.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include "lib/base/error.h"
#include "lib/checkpoints/safetensors.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOnlyFile = "model.safetensors";
constexpr std::string_view kIndexEnding = ".index.json";

/// Names of the tensors of each file.
using Shards = std::map<std::string, std::set<std::string>>;

Shards shards_in(const std::string& index) {
  std::ifstream file(index);
  if (!file) throw UserError("{}: can't be read", index);
  Shards shards;
  try {
    const auto json = nlohmann::json::parse(file);
    for (const auto& [tensor, shard] : json.at("weight_map").items())
      shards[shard.get<std::string>()].insert(tensor);
  } catch (const nlohmann::json::exception& error) {
    throw UserError("{}: is no index of safetensors files: {}", index,
                    error.what());
  }
  if (shards.empty()) throw UserError("{}: names no tensor", index);
  return shards;
}

}  // namespace

std::optional<std::string> weights_file_in(const std::string& folder) {
  std::error_code error;
  if (fs::exists(folder + "/checkpoints", error)) return std::nullopt;
  const std::string only = folder + "/" + kOnlyFile;
  for (const std::string& path : {only + std::string(kIndexEnding), only})
    if (fs::is_regular_file(path, error)) return path;
  return std::nullopt;
}

bool is_shard_index(const std::string& path) {
  return path.ends_with(kIndexEnding);
}

NamedTensors read_shards(const std::string& index) {
  NamedTensors all;
  for (auto& [name, tensors] : shards_in(index)) {
    // An index from elsewhere opens no file of another folder.
    if (fs::path(name).filename() != name)
      throw UserError("{}: names the file '{}', which isn't beside it", index,
                      name);
    const std::string path = (fs::path(index).parent_path() / name).string();
    if (!fs::exists(path))
      throw UserError("{}: names {}, which isn't there", index, path);
    const auto is_named = [&wanted = tensors](std::string_view tensor) {
      return wanted.contains(std::string(tensor));
    };
    NamedTensors found = read_safetensors(path, is_named);
    for (auto& [tensor, values] : found) {
      tensors.erase(tensor);
      all.emplace_back(tensor, std::move(values));
    }
    if (!tensors.empty())
      throw UserError("{}: has no tensor '{}', which {} names", path,
                      *tensors.begin(), index);
  }
  return all;
}

}  // namespace sluice
