#include "lib/metrics/early_stop.h"

#include <limits>

namespace sluice {

bool Measure::is_better(double value, double best, double margin) const {
  return name == "loss" ? value < best - margin : value > best + margin;
}

double Measure::in(const records::Evaluation& evaluation) const {
  return name == "loss"
             ? evaluation.validation_loss.value_or(evaluation.loss)
             : evaluation.validation_accuracy.value_or(evaluation.accuracy);
}

std::string choosing_split(const records::Evaluation& evaluation) {
  return evaluation.validation_loss ? "validation" : "test";
}

void EarlyStop::evaluated(const records::Evaluation& evaluation) {
  const double value = options_.measure.in(evaluation);
  split_ = choosing_split(evaluation);
  const bool is_first = !best_ && value == value;
  if (is_first || (best_ && options_.measure.is_better(value, *best_,
                                                       options_.min_delta))) {
    best_ = value;
    best_turn_ = evaluation.turn;
    without_progress_ = 0;
  } else {
    ++without_progress_;
  }
}

records::EarlyStop EarlyStop::record(std::int64_t turn) const {
  return {.turn = turn,
          .split = split_,
          .measure = options_.measure.name,
          .best = best_.value_or(std::numeric_limits<double>::quiet_NaN()),
          .best_turn = best_turn_,
          .without_progress = without_progress_};
}

}  // namespace sluice
