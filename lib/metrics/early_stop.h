#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/metrics/records.h"

namespace sluice {

/// A figure of an evaluation, and which way is better.
struct Measure {
  std::string name = "accuracy";  ///< "accuracy" (more) or "loss" (less)

  /// The figure to choose by: that of the validation split where the evaluation
  /// has one, else that of the test split. NaN where it has neither.
  double in(const records::Evaluation& evaluation) const;

  /// Whether `value` beats `best` by more than `margin`. A value that is no
  /// number beats nothing.
  bool is_better(double value, double best, double margin = 0) const;

  bool operator==(const Measure&) const = default;
};

/// The split whose evaluations decide: "validation" or "test".
std::string choosing_split(const records::Evaluation& evaluation);

/// A run ends when its evaluations have stopped getting better.
struct EarlyStopOptions {
  Measure measure = {};
  std::int64_t patience = 0;  ///< evaluations without progress; 0: never
  double min_delta = 0;       ///< what counts as progress
};

/// Watches the evaluations of a run.
class EarlyStop {
 public:
  explicit EarlyStop(EarlyStopOptions options) : options_(std::move(options)) {}

  bool enabled() const { return options_.patience > 0; }
  void evaluated(const records::Evaluation& evaluation);
  bool is_due() const {
    return enabled() && without_progress_ >= options_.patience;
  }
  /// Record of a stop, for a run that ends after that turn.
  records::EarlyStop record(std::int64_t turn) const;

 private:
  EarlyStopOptions options_;
  std::optional<double> best_;
  std::int64_t best_turn_ = 0;
  std::string split_ = "test";
  std::int64_t without_progress_ = 0;
};

}  // namespace sluice
