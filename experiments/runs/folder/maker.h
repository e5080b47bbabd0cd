#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace sluice {

struct Experiment;

/// The maker of a stretch of a run's turns, as keys and texts of run.json:
/// build, libtorch, processor, instruction_set, gpus, driver, threads, engine,
/// device. An older run.json lacks some.
class Maker {
 public:
  Maker() = default;
  /// `part`: what run.json says of a stretch. Never throws: what is damaged is
  /// left out.
  explicit Maker(const nlohmann::ordered_json& part);

  /// The text of a key; empty: run.json doesn't have it.
  std::string_view find(std::string_view key) const;
  bool operator==(const Maker&) const = default;

 private:
  std::vector<std::pair<std::string, std::string>> texts_;
};

/// What is added to a stretch of run.json beside build, libtorch and engine.
nlohmann::ordered_json maker_keys(const Experiment& experiment);

/// This process as the maker of that experiment.
Maker maker_here(const Experiment& experiment);

/// Makers by stretch, the first one before the run was first continued. `run`:
/// what run.json holds.
std::vector<Maker> makers_in(const nlohmann::ordered_json& run);
/// Makers of the run in that folder; none where run.json can't be read.
std::vector<Maker> makers_of_run(const std::string& folder);

/// Keys that they say several values of: "libtorch 2.11.0 and 2.13.0,
/// instruction_set AVX2 and AVX512"; empty: none. Those in `but` don't count.
std::string mixed(std::span<const Maker> makers,
                  std::span<const std::string_view> but = {});

/// "LibTorch 2.13.0, AVX512, 4 threads": what equal bits depend on.
std::string text_of(const Maker& maker);

/// One line for the end of a comparison of bits which failed; empty where the
/// run was computed as this process computes.
std::string likely_cause(const std::string& run_folder,
                         const Experiment& experiment);

}  // namespace sluice
