#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/tensors/tensors.h"

namespace sluice {

/// Texts about a file, by name: what safetensors calls metadata.
using FileNotes = std::vector<std::pair<std::string, std::string>>;

/// Writes named tensors in the safetensors format (8 bytes little-endian
/// length, a JSON header, the bytes; rows contiguous), readable by Python's
/// safetensors, with a CRC-32C of each tensor and of the header as metadata,
/// and a note of tensors that aren't finite (kNotFiniteNote). The file is
/// written beside its place, synced and renamed, so that the place holds an old
/// or a whole new file. Throws UserError with the path and the system's reason.
void write_safetensors(const std::string& path, const NamedTensors& tensors,
                       const FileNotes& notes = {});

/// All tensors of such a file, in the order of their bytes. Throws UserError
/// naming the file and what is wrong with it: where it has checksums, any bit
/// that has changed. With `wanted`: those of such names only, without reading
/// the others.
NamedTensors read_safetensors(
    const std::string& path,
    const std::function<bool(std::string_view name)>& wanted = {});

}  // namespace sluice
