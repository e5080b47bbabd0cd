#pragma once

#include <span>
#include <string_view>

#include "lib/base/table.h"

namespace sluice {

/// A published system that is a choice of keys: what `sluice list methods NAME`
/// says of it. Plain text, a paragraph each.
struct Preset {
  std::string_view source = {};     ///< who published it, and where
  std::string_view kept = {};       ///< between a batch's forward and backward
  std::string_view staleness = {};  ///< in batches and in updates
  /// The keys, in lines of TOML, which a config of
  /// experiments/configs/pipelines has too.
  std::string_view config = {};
};
using PresetRow = Row<Preset>;

/// Names for what policies, pipelines and corrections make together. A new one
/// is one row, one config and one test by its name.
std::span<const PresetRow> presets();

}  // namespace sluice
