#pragma once

#include <optional>
#include <string>

#include "lib/tensors/tensors.h"

namespace sluice {

/// The file that a folder of another program keeps its weights in: the index of
/// several safetensors files (model.safetensors.index.json), or else the only
/// one (model.safetensors); nothing: it has neither, or it is a run's, whose
/// checkpoints may be newer.
std::optional<std::string> weights_file_in(const std::string& folder);

bool is_shard_index(const std::string& path);

/// The tensors of all files that an index names: JSON whose "weight_map" says
/// the file of each tensor, beside the index. Throws UserError where it can't
/// be read, or a file or a tensor is missing.
NamedTensors read_shards(const std::string& index);

}  // namespace sluice
