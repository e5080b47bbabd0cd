#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "experiments/runs/checkpoints/checkpoint_keeper.h"
#include "lib/metrics/records.h"
#include "lib/metrics/sink.h"
#include "lib/metrics/time_spent.h"

namespace sluice {

/// Costs of blocks, by replica and block.
using BlocksOfRun = std::map<std::pair<int, int>, records::Block>;

/// Where the records of a run go: to each of the sinks, stamped with the
/// seconds since the run's start; what later steps need is remembered.
class RunSink final : public Sink {
 public:
  /// bytes_per_token: of the test split of a text; 0: unknown, or no text.
  RunSink(std::vector<std::shared_ptr<Sink>> sinks, CheckpointKeeper& keeper,
          double bytes_per_token = 0);

  /// Takes the records of the part of the run that is being continued.
  void recall(const std::vector<Record>& history);
  void write(const Record& record) override;

  /// How many turns some block has applied, as far as records tell.
  std::int64_t turns() const { return turns_; }
  const std::optional<records::Evaluation>& last_evaluation() const {
    return last_evaluation_;
  }
  /// Costs of each block; known from the run's end on.
  const BlocksOfRun& blocks() const { return blocks_; }
  /// Memory of each block as forecast before the first turn.
  const std::map<int, records::Forecast>& forecasts() const {
    return forecasts_;
  }
  /// The virtual engine's clock by block; that of the run under 0.
  const std::map<int, records::Clock>& clock() const { return clock_; }
  /// Number of dropped activations by boundary.
  const std::map<int, std::int64_t>& dropped() const { return dropped_; }

 private:
  void remember(const Record& record);

  std::vector<std::shared_ptr<Sink>> sinks_;
  CheckpointKeeper& keeper_;
  double bytes_per_token_;
  double seconds_before_ = 0;
  SteadyTime started_ = std::chrono::steady_clock::now();
  std::int64_t turns_ = 0;
  std::optional<records::Evaluation> last_evaluation_;
  BlocksOfRun blocks_;
  std::map<int, records::Forecast> forecasts_;
  std::map<int, records::Clock> clock_;
  std::map<int, std::int64_t> dropped_;
};

}  // namespace sluice
