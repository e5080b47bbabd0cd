#include "experiments/sweep/halving.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/config/tables/lengths.h"
#include "experiments/runs/checkpoints/run_state.h"
#include "lib/base/error.h"
#include "lib/schedules/orders/free_running.h"

namespace sluice::sweep {
namespace {

/// The score of one run at a turn (0: at its end), higher is better; NaN when
/// it has not got there.
double score_of(const SweepRun& run, std::int64_t turn,
                const std::string& measure) {
  const auto evaluation = evaluation_until(
      run.folder, turn > 0 ? turn : std::numeric_limits<std::int64_t>::max());
  const double value =
      Measure{measure}.in(evaluation.value_or(records::Evaluation()));
  return measure == "loss" ? -value : value;
}

bool is_better(double left, double right) {
  if (std::isnan(left)) return false;
  return std::isnan(right) || left > right;
}

}  // namespace

std::int64_t turn_of_rung(const Experiment& experiment, double epochs) {
  if (!can_be_continued(experiment.plans.front()))
    throw UserError(
        "sweep.halving: what lies in buffers, or waits to be sent or dropped, "
        "is in no checkpoint, so that a run can't be continued after a rung: "
        "leave buffer and slow_consumer out");
  const Rhythm& evaluations = experiment.length.evaluate_every;
  if (evaluations.every < 1)
    throw UserError(
        "sweep.halving: compares evaluations; set evaluate_every above 0");
  const Epochs all = epochs_of(experiment);
  const std::int64_t turn = all.deals.turn_with(static_cast<std::int64_t>(
      std::ceil(epochs * static_cast<double>(all.batches))));
  const std::int64_t end = experiment.length.turns;
  const std::int64_t evaluated = evaluations.next_after(turn - 1, end);
  return evaluated < end ? evaluated : 0;
}

bool has_reached(const SweepRun& run, std::int64_t turn) {
  if (run.is_done()) return true;
  if (turn == 0 || run.state.kind != RunState::Kind::unfinished) return false;
  const auto evaluation = evaluation_until(run.folder, turn);
  return evaluation && evaluation->turn == turn;
}

std::vector<std::size_t> best_cells(const std::vector<std::size_t>& cells,
                                    const std::vector<double>& scores,
                                    std::int64_t keep) {
  std::vector<std::size_t> order(cells.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](auto left, auto right) {
    return is_better(scores.at(left), scores.at(right));
  });
  const auto each = static_cast<std::size_t>(keep);
  order.resize((cells.size() + each - 1) / each);
  std::sort(order.begin(), order.end());
  std::vector<std::size_t> best;
  best.reserve(order.size());
  for (const std::size_t i : order) best.push_back(cells[i]);
  return best;
}

std::vector<double> scores_at(const SweepRuns& runs,
                              const std::vector<std::size_t>& cells,
                              const Halving& halving, double epochs) {
  std::vector<double> scores;
  for (const std::size_t cell : cells) {
    double sum = 0;
    int count = 0;
    for (const SweepRun& run : runs.all()) {
      if (run.cell != cell) continue;
      const std::int64_t turn = turn_of_rung(runs.experiment_of(run), epochs);
      if (!has_reached(run, turn)) continue;
      sum += score_of(run, turn, halving.measure);
      ++count;
    }
    scores.push_back(count > 0 ? sum / count
                               : std::numeric_limits<double>::quiet_NaN());
  }
  return scores;
}

std::string pruned_file(const std::string& run_folder) {
  return run_folder + ".pruned";
}

}  // namespace sluice::sweep
