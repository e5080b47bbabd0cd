#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/config/files/about.h"
#include "lib/base/config_node.h"
#include "lib/base/table.h"

namespace sluice {

/// A config under experiments/configs with a table [about], as it was when the
/// program was built.
struct PublishedConfig {
  std::string file = {};  ///< "pipelines/gpipe"
  About about = {};
  ConfigNode keys = {};  ///< the part of the config that about.keys names

  /// Name in `sluice list methods`: "gpipe".
  std::string_view name() const;
  /// Keys as lines of TOML.
  std::string config() const;
  /// Whether it says how replicas work together.
  bool is_of_replicas() const { return keys.find("replicas") != nullptr; }
};

/// A published system: a config that has its name, or an entry of
/// scripts/coverage.toml.
struct PublishedSystem {
  std::string name = {};        ///< "Overlapping local updates"
  std::string paper = {};       ///< "Laskin et al. 2020, arXiv:2012.03837"
  std::string state = "built";  ///< or "not yet", "left out"
  std::string keys = {};        ///< that make it, as TOML; or empty
  std::string config = {};      ///< of experiments/configs, without .toml
  std::string note = {};        ///< what one must know, or why it isn't there
  /// What it uses of `sluice list`: "heads infopro".
  std::vector<std::string> rows = {};
  /// Tests of what makes the system what it is: "FILE SUITE.TEST".
  std::vector<std::string> tests = {};

  bool is_built() const { return state == "built"; }
};

/// Text of a config, and its path: "pipelines/gpipe".
struct ConfigText {
  std::string_view file = {};
  std::string_view text = {};
};

struct PublishedSystems {
  std::vector<PublishedConfig> configs = {};  ///< by group, then by name
  std::vector<PublishedSystem> systems = {};  ///< those of configs first
};

/// Reads the configs and `coverage`, the text of scripts/coverage.toml. Throws
/// UserError for a group that isn't there, and for keys that a config doesn't
/// have.
PublishedSystems read_published_systems(std::string_view coverage,
                                        std::span<const ConfigText> configs);

/// All configs and systems that the program was built with.
const PublishedSystems& published_systems();

/// Names for what policies, pipelines, corrections, replica policies and
/// compressors make together: the configs with a summary.
using PresetRow = Row<const PublishedConfig*>;
std::span<const PresetRow> presets();

/// The way in which a typed text names something.
enum class NameMatch : std::uint8_t { none, begins, whole };

/// Whether `typed` is one or more words of `name`, in any case, whatever stands
/// between letters and digits: "mono-forward" of "Mono-Forward", "dgl" of
/// "Greedy local losses: DGL", "pipedream2bw" of "PipeDream-2BW". Or, from
/// three characters on, the beginning of such: "resnet" of "resnet18".
NameMatch name_match(std::string_view name, std::string_view typed);

}  // namespace sluice
