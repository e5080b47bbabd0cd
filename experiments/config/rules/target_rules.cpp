#include "experiments/config/rules/target_rules.h"

#include <fmt/format.h>

namespace sluice {
namespace {

bool is_of_accuracy(const Measure& measure) {
  return measure.name == "accuracy";
}

/// Refuses accuracies where targets are numbers: nothing is right or wrong
/// about a number.
void refuse_accuracy(const Experiment& experiment, const Fields& top) {
  const EarlyStopOptions& stop = experiment.length.early_stop;
  if (stop.patience > 0 && is_of_accuracy(stop.measure))
    top.reject("early_stop",
               "goes by the accuracy, and targets that are numbers have none: "
               "set metric = \"loss\"");
  const auto& best = experiment.checkpoint.keep.best;
  if (best && is_of_accuracy(*best))
    top.reject("checkpoint",
               "best = \"accuracy\", and targets that are numbers have none: "
               "set best = \"loss\"");
}

}  // namespace

void check_targets(const Experiment& experiment, std::string_view loss,
                   const Fields& top) {
  const Targets targets = experiment.model.sample.targets;
  if (targets == Targets::classes) return;
  const bool are_numbers = targets == Targets::values;
  const std::string what = are_numbers
                               ? "the targets of this data set are numbers"
                               : "data.mixup and data.teacher make shares of "
                                 "the classes";
  if (loss == "goodness" || experiment.model.trains_on_pairs)
    top.reject(experiment.model.trains_on_pairs ? "model" : "loss",
               fmt::format("wants labels that are classes, and {}", what));
  if (!are_numbers) return;
  if (loss == "cross_entropy")
    top.reject("loss",
               fmt::format("cross_entropy is of classes, and {}: set loss.name "
                           "= \"mean_squared_error\"",
                           what));
  refuse_accuracy(experiment, top);
}

void check_switches(const Experiment& experiment, const Fields& top) {
  if (experiment.model.sample.targets != Targets::values) return;
  for (const Switch& next : experiment.length.switches)
    if (next.on_measure() && is_of_accuracy(next.measure))
      top.reject("timetable",
                 "a phase begins at an accuracy, and targets that are numbers "
                 "have none: let it begin at a loss");
}

}  // namespace sluice
