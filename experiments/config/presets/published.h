#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// A published system, as scripts/coverage.toml has it.
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

/// All systems, in the order of scripts/coverage.toml.
std::vector<PublishedSystem> published_systems();

/// The way in which a typed text names something.
enum class NameMatch : std::uint8_t { none, begins, whole };

/// Whether `typed` is one or more words of `name`, in any case, whatever stands
/// between letters and digits: "mono-forward" of "Mono-Forward", "dgl" of
/// "Greedy local losses: DGL", "pipedream2bw" of "PipeDream-2BW". Or, from
/// three characters on, the beginning of such: "resnet" of "resnet18".
NameMatch name_match(std::string_view name, std::string_view typed);

}  // namespace sluice
