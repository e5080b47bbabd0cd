#include "experiments/report/study/target.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include <fmt/format.h>

namespace sluice::report {
namespace {

using KnownFigure = std::optional<double>;

/// Figure of a run up to a turn.
using UntilTurn = std::function<KnownFigure(const RunRecord& run,
                                            const std::optional<TurnWork>& work,
                                            const RunPoint& reached)>;

/// Samples of all replicas; the last batch of an epoch may be smaller.
KnownFigure samples_of_turn(const RunRecord& run) {
  const ConfigNode* size =
      run.config ? run.config->find("batch_size") : nullptr;
  const auto* samples =
      size != nullptr ? std::get_if<std::int64_t>(&size->value) : nullptr;
  if (samples == nullptr) return std::nullopt;
  return static_cast<double>(*samples * run.replicas());
}

KnownFigure samples_until(const RunRecord& run, const std::optional<TurnWork>&,
                          const RunPoint& reached) {
  const KnownFigure samples = samples_of_turn(run);
  if (!samples) return std::nullopt;
  return *samples * static_cast<double>(reached.turn);
}

UntilTurn work_until(WorkInTurns amount) {
  return [amount](const RunRecord&, const std::optional<TurnWork>& work,
                  const RunPoint& reached) -> KnownFigure {
    if (!work) return std::nullopt;
    return amount(*work, reached.turn);
  };
}

KnownFigure seconds_until(const RunRecord&, const std::optional<TurnWork>&,
                          const RunPoint& reached) {
  return reached.time;
}

/// Part of the run's virtual seconds in proportion to turns: the clock is
/// recorded only at the end.
KnownFigure virtual_seconds_until(const RunRecord& run,
                                  const std::optional<TurnWork>&,
                                  const RunPoint& reached) {
  if (!run.summary || !run.summary->virtual_seconds || run.turns == 0)
    return std::nullopt;
  return *run.summary->virtual_seconds * static_cast<double>(reached.turn) /
         static_cast<double>(run.turns);
}

MeasuredFigure figure_until(double test_loss, Figure figure, UntilTurn until) {
  return {.figure = std::move(figure),
          .of = [test_loss, until = std::move(until)](
                    const RunRecord& run,
                    const std::optional<TurnWork>& work) -> KnownFigure {
            const auto reached = first_at_or_below(run.loss, test_loss);
            return reached ? until(run, work, *reached) : std::nullopt;
          },
          .is_censored =
              [test_loss](const RunRecord& run) {
                return !run.loss.empty() &&
                       !first_at_or_below(run.loss, test_loss);
              }};
}

MeasuredFigure reached_figure(double test_loss) {
  return {.figure = {.name = "reached_target",
                     .title = fmt::format("reached {:g}", test_loss),
                     .unit = "%",
                     .scale = 100,
                     .digits = 0,
                     .higher_is_better = true,
                     .note = fmt::format(
                         "columns \"to {0:g}\" count until the first "
                         "evaluation with a test loss of {0:g} or less; never: "
                         "so many of the runs that are done ended above it, "
                         "and the cell has no mean",
                         test_loss)},
          .of = [test_loss](const RunRecord& run,
                            const std::optional<TurnWork>&) -> KnownFigure {
            if (run.loss.empty()) return std::nullopt;
            return first_at_or_below(run.loss, test_loss) ? 1.0 : 0.0;
          }};
}

}  // namespace

std::optional<RunPoint> first_at_or_below(const RunSeries& series,
                                          double target) {
  const auto found = std::find_if(
      series.begin(), series.end(),
      [&](const RunPoint& point) { return point.value <= target; });
  if (found == series.end()) return std::nullopt;
  return *found;
}

std::vector<MeasuredFigure> figures_until(double test_loss) {
  const auto titled = [&](const char* what) {
    return fmt::format("{} to {:g}", what, test_loss);
  };
  return {
      reached_figure(test_loss),
      figure_until(test_loss,
                   {.name = "samples_to_target", .title = titled("samples")},
                   samples_until),
      figure_until(test_loss,
                   {.name = "flops_to_target",
                    .title = titled("computed"),
                    .unit = "FLOP"},
                   work_until(flops_in)),
      figure_until(test_loss,
                   {.name = "sequential_flops_to_target",
                    .title = titled("sequential"),
                    .unit = "FLOP"},
                   work_until(sequential_flops_in)),
      figure_until(test_loss,
                   {.name = "seconds_to_target",
                    .title = titled("time"),
                    .unit = "s",
                    .is_measured = true},
                   seconds_until),
      figure_until(test_loss,
                   {.name = "virtual_seconds_to_target",
                    .title = titled("virtual time"),
                    .unit = "s",
                    .is_measured = true,
                    .note = "virtual time until then: that of the run, in "
                            "proportion to its turns"},
                   virtual_seconds_until)};
}

}  // namespace sluice::report
