#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace sluice {

/// A checkpoint whose tensors aren't all finite is set aside: its folder is
/// renamed "turn-000120.not-finite", which no command takes for a checkpoint. A
/// folder of checkpoints keeps the newest of these.

/// The first tensor of a checkpoint that isn't finite, as its writer noted in
/// the headers of its files: "tensor 'layers.0.weight' of block-1.safetensors".
/// Empty: none was noted. Throws UserError for a damaged header, or where the
/// checkpoint isn't there.
std::string noted_not_finite(const std::string& checkpoint);

/// The first tensor that isn't finite, by the values of the tensors, for files
/// of programs that note nothing; `path` is a checkpoint or a safetensors file.
/// Files that can't be read are passed over. Throws UserError where `path`
/// isn't there.
std::string find_not_finite(const std::string& path);

/// Whether a folder is a checkpoint that was set aside.
bool is_set_aside(const std::string& folder);

/// Sets a checkpoint aside. Returns its new folder. Throws UserError.
std::string set_aside(const std::string& checkpoint);

/// A checkpoint that was set aside.
struct AsideCheckpoint {
  std::int64_t turn = 0;
  std::string folder = {};
};
/// The newest in a folder of checkpoints; nothing: none is there.
std::optional<AsideCheckpoint> find_set_aside(const std::string& checkpoints);

}  // namespace sluice
