#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/base/config.h"
#include "lib/base/config_node.h"

namespace sluice {

/// Table [about] of a config: the published system that the config is, for
/// `sluice list methods`, `sluice help` and docs/coverage.md. Line breaks in
/// texts are spaces.
struct About {
  std::string name = {};   ///< "GPipe"; empty: another config's rows name it
  std::string paper = {};  ///< "Huang et al. 2019, arXiv:1811.06965"
  std::string group = {};  ///< a title in scripts/coverage.toml
  /// Its line in `sluice list methods`; empty: no row there.
  std::string summary = {};
  std::string source = {};  ///< who published it, and where
  /// Between a batch's forward and backward; of replicas, what each keeps.
  std::string kept = {};
  std::string staleness = {};          ///< in batches and in updates
  std::vector<std::string> keys = {};  ///< paths in this file that make it
  std::vector<std::string> rows = {};  ///< "heads infopro"
  ConfigNode model = {};  ///< a small one, where not every model will do
  std::vector<std::string> tests = {};  ///< "FILE SUITE.TEST"
  std::string study = {};
  std::string note = {};  ///< what one must know, what it lacks

  void describe(Fields& fields);
};

/// Takes [about] out of the config of one file, and reads it.
std::optional<About> take_about(ConfigNode& file);

/// Keys of [about], for `sluice help config`.
std::vector<KeyDoc> about_keys();

}  // namespace sluice
