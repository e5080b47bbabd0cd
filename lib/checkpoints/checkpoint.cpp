#include "lib/checkpoints/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <vector>

#include <ATen/ATen.h>

#include "lib/base/error.h"
#include "lib/checkpoints/safetensors.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOptimizerSuffix = ".optimizer.safetensors";

}  // namespace

std::string checkpoint_folder(const std::string& checkpoints,
                              std::int64_t turn) {
  return fmt::format("{}/turn-{:06}", checkpoints, turn);
}

void save_block(const std::string& checkpoints, std::int64_t turn, int block,
                const NamedTensors& weights,
                const NamedTensors& optimizer_state) {
  const std::string folder = checkpoint_folder(checkpoints, turn) + ".partial";
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw UserError("{}: can't be made: {}", folder, error.message());
  write_safetensors(fmt::format("{}/block-{}.safetensors", folder, block),
                    weights);
  write_safetensors(
      fmt::format("{}/block-{}{}", folder, block, kOptimizerSuffix),
      optimizer_state);
}

void finish_checkpoint(const std::string& checkpoints, std::int64_t turn) {
  const std::string folder = checkpoint_folder(checkpoints, turn);
  std::error_code error;
  fs::remove_all(folder, error);
  fs::rename(folder + ".partial", folder, error);
  if (error) throw UserError("{}: can't be made: {}", folder, error.message());
}

NamedTensors load_weights(const std::string& checkpoint) {
  std::error_code error;
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(checkpoint, error)) {
    const std::string path = entry.path().string();
    if (path.ends_with(".safetensors") && !path.ends_with(kOptimizerSuffix))
      files.push_back(path);
  }
  if (error || files.empty())
    throw UserError("{}: no checkpoint: {}", checkpoint,
                    error ? error.message() : "it has no block-*.safetensors");
  std::sort(files.begin(), files.end());
  NamedTensors all;
  for (const std::string& file : files)
    for (auto& named : read_safetensors(file)) all.push_back(std::move(named));
  return all;
}

void copy_by_name(const NamedTensors& from, const NamedTensors& into) {
  const at::NoGradGuard no_grad;
  std::map<std::string_view, const at::Tensor*> by_name;
  for (const auto& [name, tensor] : from) by_name[name] = &tensor;
  for (const auto& [name, tensor] : into) {
    const auto found = by_name.find(name);
    if (found == by_name.end())
      throw UserError("the checkpoint has no tensor '{}'", name);
    if (found->second->sizes() != tensor.sizes())
      throw UserError("tensor '{}' is {} in the checkpoint, {} here", name,
                      fmt::join(found->second->sizes(), "x"),
                      fmt::join(tensor.sizes(), "x"));
    at::Tensor target = tensor;
    target.copy_(*found->second);
  }
}

}  // namespace sluice
