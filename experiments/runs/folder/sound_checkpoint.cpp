#include "experiments/runs/folder/sound_checkpoint.h"

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <limits>

#include <fmt/format.h>

#include "experiments/runs/folder/run_folder.h"
#include "lib/base/error.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/checkpoints/finite.h"
#include "lib/checkpoints/set_aside.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// The newest checkpoint of fewer turns whose tensors are finite; empty: none.
std::string sound_checkpoint_before(std::int64_t turn,
                                    const std::string& checkpoints) {
  const auto found = find_checkpoints(checkpoints);
  for (auto each = found.rbegin(); each != found.rend(); ++each)
    if (each->first < turn && find_not_finite(each->second).empty())
      return each->second;
  return "";
}

std::string use_instead(const std::string& sound, const std::string& command) {
  return sound.empty()
             ? "no checkpoint before it is finite: train anew, with a lower "
               "optimizer.lr or optimizer.clip.norm"
             : fmt::format("the last finite checkpoint before is {}: {} {}",
                           sound, command, sound);
}

/// The turn of a checkpoint, or of the one that a file lies in; above all turns
/// where it is neither.
std::int64_t turn_of_weights(const fs::path& path) {
  for (const fs::path& each : {path, path.parent_path()})
    if (const auto turn = turn_of(each.string())) return *turn;
  return std::numeric_limits<std::int64_t>::max();
}

std::string checkpoints_around(const fs::path& path) {
  const fs::path folder = fs::is_directory(path) ? path : path.parent_path();
  const bool is_one =
      turn_of(folder.string()).has_value() || is_set_aside(folder.string());
  return (is_one ? folder.parent_path() : folder).string();
}

}  // namespace

void go_back_to_sound_checkpoint(const std::string& run_folder) {
  const std::string checkpoints = checkpoints_of_run(run_folder);
  std::string last;
  for (auto found = find_checkpoints(checkpoints); !found.empty();
       found = find_checkpoints(checkpoints)) {
    const std::string& newest = found.rbegin()->second;
    const std::string what = find_not_finite(newest);
    if (what.empty()) {
      if (!last.empty())
        fmt::print(stderr, "sluice: {} goes on from {}, which is finite\n",
                   run_folder, newest);
      return;
    }
    last = set_aside(newest);
    fmt::print(stderr, "sluice: {}: {} isn't finite: set aside as {}\n", newest,
               what, last);
  }
  if (const auto aside = find_set_aside(checkpoints))
    throw UserError(
        "{}: none of its checkpoints is finite (the last is {}): start it anew "
        "with --overwrite, and a lower optimizer.lr or optimizer.clip.norm",
        run_folder, aside->folder);
}

void check_are_finite(const NamedTensors& tensors, const std::string& weights,
                      const std::string& command) {
  const std::string name = first_not_finite(tensors);
  if (name.empty()) return;
  const fs::path path = fs::weakly_canonical(weights);
  throw NonFiniteError(fmt::format(
      "{}: tensor '{}' has NaN or infinite values; {}", weights, name,
      use_instead(sound_checkpoint_before(turn_of_weights(path),
                                          checkpoints_around(path)),
                  command)));
}

void check_last_was_kept(const std::string& run_folder,
                         const std::string& command) {
  const std::string checkpoints = checkpoints_of_run(run_folder);
  const auto aside = find_set_aside(checkpoints);
  if (!aside) return;
  const auto found = find_checkpoints(checkpoints);
  if (!found.empty() && found.rbegin()->first >= aside->turn) return;
  throw NonFiniteError(fmt::format(
      "{}: has NaN or infinite values; {}", aside->folder,
      use_instead(sound_checkpoint_before(aside->turn, checkpoints), command)));
}

}  // namespace sluice
