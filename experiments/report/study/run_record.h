#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/runs/folder/maker.h"
#include "lib/base/config_node.h"
#include "lib/metrics/records.h"

namespace sluice::report {

/// A figure of a run after some turn.
struct RunPoint {
  std::int64_t turn = 0;
  double time = 0;  ///< seconds since the run's start
  double value = 0;
};
using RunSeries = std::vector<RunPoint>;  ///< by turn

/// The data of a run that a report needs, read from its folder.
struct RunRecord {
  enum class State {
    done,
    unfinished,  ///< it is running, was interrupted or was killed
    failed,
    absent  ///< a sweep has not begun it yet
  };

  std::string folder = {};  ///< where it is, or would be
  std::int64_t seed = 0;
  State state = State::absent;
  std::string error = {};                 ///< the message of a failed run
  std::optional<ConfigNode> config = {};  ///< the resolved one
  bool was_continued = false;             ///< its seconds are of several parts
  std::string host = {};                  ///< where it ran; empty: unknown
  double started = 0;                     ///< seconds since 1970
  /// Whether another run of the report was on its machine at the same time, as
  /// far as is known: then its times say less.
  bool shared_machine = false;
  /// Program, libraries and machine; of a run in several parts those of each.
  std::string made_with = {};
  std::vector<Maker> makers = {};  ///< of each part

  RunSeries accuracy = {};             ///< of the test split
  RunSeries loss = {};                 ///< of the test split
  RunSeries validation_accuracy = {};  ///< empty without such a split
  RunSeries validation_loss = {};
  RunSeries r2 = {};  ///< of the test split; empty unless targets are numbers
  RunSeries validation_r2 = {};
  RunSeries bits_per_byte = {};   ///< of the test split of a text
  RunSeries known_accuracy = {};  ///< of the training part (evaluate_training)
  RunSeries known_loss = {};
  /// Turn of the evaluation that the run is judged by: that of checkpoints/best
  /// where the validation split chose it; nothing: the last one.
  std::optional<std::int64_t> chosen_turn = {};
  /// What the test split decided, by the run's own config: "early_stop"; empty:
  /// nothing.
  std::string chosen_by_test = {};
  std::map<int, RunSeries> training_loss = {};  ///< by block
  /// Comparisons of applied gradients with back-propagation ([probe]), by
  /// figure
  /// ("cosine") and block; of replica 1.
  std::map<std::string, std::map<int, RunSeries>> probes = {};
  /// Probes of layers ([probe] layers = true), by figure and layer.
  std::map<std::string, std::map<int, RunSeries>> layer_probes = {};
  /// Histograms of staleness: counts by counter ("d_batch"), block and value.
  std::map<std::string, std::map<int, std::map<std::int64_t, std::int64_t>>>
      staleness = {};
  std::map<int, records::Block> blocks = {};  ///< time and memory of each block
  std::map<int, records::Forecast> forecasts =
      {};  ///< of memory, before the first turn
  std::optional<records::EarlyStop> early_stop = {};
  std::optional<records::Summary> summary = {};
  bool was_restarted = false;  ///< from a checkpoint, after a failure
  std::int64_t turns = 0;      ///< done, as far as records tell

  std::int64_t replicas() const;  ///< of every block, or the most of one
  /// Where the config has a list of them: of each block, index k-1.
  std::vector<std::int64_t> replicas_by_block() const;
  bool is_done() const { return state == State::done; }
  /// The value of `series`, one of this run, at the evaluation that the run is
  /// judged by; nothing when the series is empty.
  std::optional<double> judged(const RunSeries& series) const;
};

/// Whether the folder has a run's config.
bool is_run_folder(const std::string& folder);

/// Reads the folder of a run. Half a last line, which a killed run may leave,
/// is ignored, and the run is unfinished. Throws UserError when anything else
/// is damaged.
RunRecord read_run(const std::string& folder);

}  // namespace sluice::report
