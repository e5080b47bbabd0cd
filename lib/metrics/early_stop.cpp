#include "lib/metrics/early_stop.h"

#include <limits>

namespace sluice {

bool Measure::is_better(double value, double best, double margin) const {
  return name == "loss" ? value < best - margin : value > best + margin;
}

double Measure::in(const Record& evaluation) const {
  return evaluation.number(
      "validation_" + name,
      evaluation.number(name, std::numeric_limits<double>::quiet_NaN()));
}

std::string choosing_split(const Record& evaluation) {
  return evaluation.find("validation_loss") != nullptr ? "validation" : "test";
}

void EarlyStop::evaluated(const Record& evaluation) {
  const double value = options_.measure.in(evaluation);
  split_ = choosing_split(evaluation);
  const bool is_first = !best_ && value == value;
  if (is_first || (best_ && options_.measure.is_better(value, *best_,
                                                       options_.min_delta))) {
    best_ = value;
    best_turn_ = evaluation.integer("turn");
    without_progress_ = 0;
  } else {
    ++without_progress_;
  }
}

Record EarlyStop::record(std::int64_t turn) const {
  Record record;
  record.set("kind", "early_stop");
  record.set("turn", turn);
  record.set("split", split_);
  record.set("measure", options_.measure.name);
  record.set("best", best_.value_or(std::numeric_limits<double>::quiet_NaN()));
  record.set("best_turn", best_turn_);
  record.set("without_progress", without_progress_);
  return record;
}

}  // namespace sluice
