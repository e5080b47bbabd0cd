#pragma once

#include <span>
#include <string_view>

#include "lib/base/table.h"

namespace sluice {

/// A published system that is a choice of keys: what `sluice list methods NAME`
/// says of it. Plain text, a paragraph each.
struct Preset {
  std::string_view source = {};  ///< who published it, and where
  /// Between a batch's forward and backward; of replicas, what each keeps.
  std::string_view kept = {};
  std::string_view staleness = {};  ///< in batches and in updates
  /// The keys, in lines of TOML, which a config of its name in the preset's
  /// folder has too.
  std::string_view config = {};
  /// A small model that it is for, as TOML; empty: any.
  std::string_view model = {};
  /// The folder of experiments/configs where its config is; empty: that of its
  /// kind.
  std::string_view configs = {};

  /// Whether the preset says how replicas work together.
  bool is_of_replicas() const {
    return config.find("[replicas]") != std::string_view::npos;
  }
  /// Folder of the preset's configs, in experiments/configs.
  std::string_view folder() const {
    if (!configs.empty()) return configs;
    return is_of_replicas() ? "replicas" : "pipelines";
  }
};
using PresetRow = Row<Preset>;

/// Names for what policies, pipelines, corrections, replica policies and
/// compressors make together. A new one is one row of a part, one config and
/// one test.
std::span<const PresetRow> presets();

// The tables whose rows presets() has.
std::span<const PresetRow> pipeline_presets();
std::span<const PresetRow> training_presets();   ///< heads, and samples
std::span<const PresetRow> averaging_presets();  ///< sums of all replicas
std::span<const PresetRow> peer_presets();       ///< peers and servers
std::span<const PresetRow> compressed_presets();

}  // namespace sluice
