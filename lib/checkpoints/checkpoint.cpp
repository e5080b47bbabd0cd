#include "lib/checkpoints/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <system_error>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>
#include <fcntl.h>
#include <fmt/ranges.h>

#include "lib/base/error.h"
#include "lib/base/files/file.h"
#include "lib/base/files/moved_folder.h"
#include "lib/base/nearest.h"
#include "lib/checkpoints/safetensors.h"
#include "lib/checkpoints/shards.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTurnPrefix = "turn-";
constexpr std::string_view kSuffix = ".safetensors";
constexpr std::string_view kStateSuffix = ".state.safetensors";
/// Prefix of the counters of block 1's worker in its state, and the one that is
/// there where replica 1 has weights of its own.
constexpr std::string_view kCounters = "workers.1.";
constexpr std::string_view kOwnWeights = "workers.1.own_weights";
constexpr const char* kPartial = ".partial";

/// Exchanges two folders at once, so that neither place is ever empty; false
/// where the file system can't.
bool exchange(const std::string& left, const std::string& right) {
  return ::renameat2(AT_FDCWD, left.c_str(), AT_FDCWD, right.c_str(),
                     RENAME_EXCHANGE) == 0;
}

/// The tensors of those files of the checkpoint that `wanted` says, by name of
/// the file.
NamedTensors read_all(const std::string& checkpoint,
                      bool (*wanted)(const std::string& file)) {
  std::error_code error;
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(checkpoint, error)) {
    const std::string path = entry.path().string();
    if (wanted(path)) files.push_back(path);
  }
  if (error || files.empty())
    throw UserError(
        "{}: no checkpoint, nor a safetensors file: {}", checkpoint,
        error ? error.message() : "the folder has no block-*.safetensors");
  std::sort(files.begin(), files.end());
  NamedTensors all;
  for (const std::string& file : files)
    for (auto& named : read_safetensors(file)) all.push_back(std::move(named));
  return all;
}

std::string shape_text(const at::Tensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.sizes(), ", "));
}

/// Weights in half precision are taken, because nothing is lost.
bool may_become(at::ScalarType from, at::ScalarType to) {
  return from == to ||
         (c10::isFloatingType(from) && c10::promoteTypes(from, to) == to);
}

}  // namespace

std::string checkpoint_folder(const std::string& checkpoints,
                              std::int64_t turn) {
  return fmt::format("{}/{}{:06}", checkpoints, kTurnPrefix, turn);
}

namespace {

std::string replica_folder(const std::string& checkpoint, int replica) {
  return fmt::format("{}/replica-{}", checkpoint, replica);
}

std::string partial_folder(const std::string& checkpoints, std::int64_t turn) {
  return checkpoint_folder(checkpoints, turn) + kPartial;
}

/// Folder of the run that these checkpoints are of; empty: they are of none, or
/// of the current folder.
fs::path run_of(const std::string& checkpoints) {
  const fs::path path(checkpoints);
  return path.filename() == "checkpoints" ? path.parent_path() : fs::path();
}

/// A run's folder that is moved is not made anew in its old place.
void make_folder_below(const fs::path& base, const fs::path& folder,
                       std::error_code& error) {
  if (folder.empty() || folder == base || fs::is_directory(folder, error))
    return;
  make_folder_below(base, folder.parent_path(), error);
  fs::create_directory(folder, error);
}

void write_into(const std::string& checkpoints, const std::string& folder,
                int block, std::string_view suffix,
                const NamedTensors& tensors) {
  std::error_code error;
  make_folder_below(run_of(checkpoints), folder, error);
  if (error) throw UserError("{}: can't be made: {}", folder, error.message());
  write_safetensors(fmt::format("{}/block-{}{}", folder, block, suffix),
                    tensors);
}

bool is_weights(const std::string& file) {
  return file.ends_with(kSuffix) && !file.ends_with(kStateSuffix);
}

bool is_state(const std::string& file) {
  return file.ends_with(kStateSuffix);
}

}  // namespace

void work_on_checkpoints(const std::string& checkpoints,
                         const std::function<void()>& work) {
  const fs::path run = run_of(checkpoints);
  if (run.empty()) return work();
  work_while_moved(run.string(), work);
}

void save_block(const std::string& checkpoints, std::int64_t turn,
                const BlockReplica& whose, const NamedTensors& weights,
                const NamedTensors& state) {
  std::string folder = partial_folder(checkpoints, turn);
  if (whose.replica > 1) folder = replica_folder(folder, whose.replica);
  work_on_checkpoints(checkpoints, [&] {
    write_into(checkpoints, folder, whose.block, kSuffix, weights);
    write_into(checkpoints, folder, whose.block, kStateSuffix, state);
  });
}

void save_own_weights(const std::string& checkpoints, std::int64_t turn,
                      int block, const NamedTensors& weights) {
  const std::string folder =
      replica_folder(partial_folder(checkpoints, turn), 1);
  work_on_checkpoints(checkpoints, [&] {
    write_into(checkpoints, folder, block, kSuffix, weights);
  });
}

namespace {

/// Removes files that a replica which was lost meanwhile had begun to write.
void remove_begun_files(const std::string& folder) {
  std::error_code error;
  std::vector<fs::path> begun;
  for (const auto& entry : fs::recursive_directory_iterator(folder, error))
    if (entry.path().extension() == kPartial) begun.push_back(entry.path());
  for (const fs::path& path : begun) fs::remove(path, error);
}

}  // namespace

void finish_checkpoint(const std::string& checkpoints, std::int64_t turn) {
  const std::string folder = checkpoint_folder(checkpoints, turn);
  const std::string beside = folder + kPartial;
  work_on_checkpoints(checkpoints, [&] {
    remove_begun_files(beside);
    std::error_code error;
    if (!fs::exists(folder) || !exchange(beside, folder)) {
      fs::remove_all(folder, error);
      fs::rename(beside, folder, error);
    }
    if (error)
      throw UserError("{}: can't be made: {}", folder, error.message());
  });
  work_on_checkpoints(checkpoints, [&] {
    sync_to_disk(checkpoints);
    const std::string run = fs::path(checkpoints).parent_path().string();
    sync_to_disk(run.empty() ? "." : run);
  });
  std::error_code error;
  fs::remove_all(beside, error);
}

std::string move_checkpoint(const std::string& checkpoint,
                            const std::string& checkpoints) {
  const std::optional<std::int64_t> turn = turn_of(checkpoint);
  SLUICE_CHECK(turn, "{} is no checkpoint", checkpoint);
  std::string target = checkpoint_folder(checkpoints, *turn);
  const std::string beside = target + kPartial;
  std::error_code error;
  fs::create_directories(checkpoints, error);
  fs::remove_all(beside, error);
  fs::rename(checkpoint, beside, error);
  if (error) {  // another file system
    fs::copy(checkpoint, beside, fs::copy_options::recursive, error);
    if (error)
      throw UserError("{}: can't be made: {}", target, error.message());
    fs::remove_all(checkpoint, error);
  }
  finish_checkpoint(checkpoints, *turn);
  return target;
}

void remove_checkpoint(const std::string& checkpoint) {
  const std::string beside = checkpoint + kPartial;
  std::error_code error;
  fs::rename(checkpoint, beside, error);
  if (!error) fs::remove_all(beside, error);
  if (error)
    throw UserError("{}: can't be removed: {}", checkpoint, error.message());
}

void remove_partial_checkpoints(const std::string& checkpoints) noexcept {
  std::error_code error;
  std::vector<fs::path> partial;
  for (fs::directory_iterator entry(checkpoints, error), end;
       !error && entry != end; entry.increment(error))
    if (entry->path().filename().string().starts_with(kTurnPrefix) &&
        entry->path().extension() == kPartial)
      partial.push_back(entry->path());
  for (const fs::path& path : partial) fs::remove_all(path, error);
}

std::optional<std::int64_t> turn_of(const std::string& folder) {
  const std::string name = fs::path(folder).filename().string();
  if (!name.starts_with(kTurnPrefix)) return {};
  const char* first = name.data() + kTurnPrefix.size();
  const char* last = name.data() + name.size();
  std::int64_t turn = 0;
  const auto [end, error] = std::from_chars(first, last, turn);
  if (error != std::errc() || end != last || first == last) return {};
  return turn;
}

std::map<std::int64_t, std::string> find_checkpoints(
    const std::string& checkpoints) {
  std::map<std::int64_t, std::string> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(checkpoints, error)) {
    const std::string path = entry.path().string();
    const std::optional<std::int64_t> turn = turn_of(path);
    if (turn && !entry.is_symlink()) found[*turn] = path;
  }
  return found;
}

NamedTensors load_weights(const std::string& path) {
  std::error_code error;
  if (is_shard_index(path)) return read_shards(path);
  if (fs::is_regular_file(path, error)) return read_safetensors(path);
  if (const auto inside = weights_file_in(path)) return load_weights(*inside);
  return read_all(path, is_weights);
}

NamedTensors load_state(const std::string& checkpoint) {
  return read_all(checkpoint, is_state);
}

namespace {

/// Throws UserError where a part of the checkpoint is gone.
void check_is_there(const std::string& own, int replica) {
  if (fs::exists(own)) return;
  throw UserError(
      "{}: isn't there, and holds what replica {} goes on with: continue from "
      "a whole checkpoint, or begin a run with initial_weights",
      own, replica);
}

/// Whether the first replica's weights aren't those that all agreed on.
bool has_first_replica(const std::string& checkpoint) {
  const NamedTensors counters = load_counters(checkpoint);
  return std::any_of(counters.begin(), counters.end(), [](const auto& named) {
    return named.first == kOwnWeights;
  });
}

}  // namespace

NamedTensors load_counters(const std::string& checkpoint) {
  return read_safetensors(
      fmt::format("{}/block-1{}", checkpoint, kStateSuffix),
      [](std::string_view name) { return name.starts_with(kCounters); });
}

namespace {

/// Adds the weights that all replicas agreed on for blocks without a file of
/// their own there: blocks of one replica beside others of several.
void add_agreed(const std::string& checkpoint, const std::string& own,
                NamedTensors& weights) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(checkpoint, error)) {
    const std::string name = entry.path().filename().string();
    if (!is_weights(name) || fs::exists(fs::path(own) / name)) continue;
    for (auto& named : read_safetensors(entry.path().string()))
      weights.push_back(std::move(named));
  }
}

}  // namespace

NamedTensors load_own_weights(const std::string& checkpoint, int replica) {
  const std::string own = replica_folder(checkpoint, replica);
  if (replica == 1 && !fs::exists(own) && !has_first_replica(checkpoint))
    return load_weights(checkpoint);
  check_is_there(own, replica);
  NamedTensors weights = read_all(own, is_weights);
  if (replica == 1) add_agreed(checkpoint, own, weights);
  return weights;
}

NamedTensors load_own_state(const std::string& checkpoint, int replica) {
  if (replica == 1) return load_state(checkpoint);
  const std::string own = replica_folder(checkpoint, replica);
  check_is_there(own, replica);
  return read_all(own, is_state);
}

bool has_replica(const std::string& checkpoint, int replica) {
  if (replica == 1) return true;
  const fs::path own = replica_folder(checkpoint, replica);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(checkpoint, error)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(kSuffix) && !fs::exists(own / name)) return false;
  }
  return true;
}

void copy_by_name(const NamedTensors& from, const NamedTensors& into,
                  std::string_view source) {
  const at::NoGradGuard no_grad;
  std::map<std::string_view, const at::Tensor*> by_name;
  std::vector<std::string> names;
  for (const auto& [name, tensor] : from) {
    by_name[name] = &tensor;
    names.push_back(name);
  }
  for (const auto& [name, tensor] : into) {
    const auto found = by_name.find(name);
    if (found == by_name.end())
      throw UserError("{}: has no tensor '{}'{}", source, name,
                      perhaps(name, names));
    if (found->second->sizes() != tensor.sizes())
      throw UserError("{}: tensor '{}' is {}, the model's is {}", source, name,
                      shape_text(*found->second), shape_text(tensor));
    if (!may_become(found->second->scalar_type(), tensor.scalar_type()))
      throw UserError(
          "{}: tensor '{}' is of {}, the model's of {}: convert it, or take "
          "another file",
          source, name, c10::toString(found->second->scalar_type()),
          c10::toString(tensor.scalar_type()));
    at::Tensor target = tensor;
    target.copy_(*found->second);
  }
}

}  // namespace sluice
