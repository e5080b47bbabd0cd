#include "experiments/report/study/figures_until.h"

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

const RunSeries& series_of(const RunRecord& run, const Target& target) {
  return target.is_accuracy ? run.accuracy : run.loss;
}

MeasuredFigure figure_until(const Target& target, Figure figure,
                            UntilTurn until) {
  return {.figure = std::move(figure),
          .of = [target, until = std::move(until)](
                    const RunRecord& run,
                    const std::optional<TurnWork>& work) -> KnownFigure {
            const auto reached = first_at(series_of(run, target), target);
            return reached ? until(run, work, *reached) : std::nullopt;
          },
          .is_censored =
              [target](const RunRecord& run) {
                const RunSeries& series = series_of(run, target);
                return !series.empty() && !first_at(series, target);
              }};
}

MeasuredFigure reached_figure(const Target& target) {
  return {.figure = {.name = "reached_target",
                     .title = "reached " + target.text(),
                     .unit = "%",
                     .scale = 100,
                     .digits = 0,
                     .higher_is_better = true,
                     .note = fmt::format(
                         "columns \"to {}\" count until the first evaluation "
                         "{}; never: so many of the runs that are done never "
                         "came there, and the cell has no mean",
                         target.text(), target.condition())},
          .of = [target](const RunRecord& run,
                         const std::optional<TurnWork>&) -> KnownFigure {
            const RunSeries& series = series_of(run, target);
            if (series.empty()) return std::nullopt;
            return first_at(series, target) ? 1.0 : 0.0;
          }};
}

}  // namespace

std::vector<MeasuredFigure> figures_until(const Target& target) {
  const auto titled = [&](const char* what) {
    return fmt::format("{} to {}", what, target.text());
  };
  return {reached_figure(target),
          figure_until(
              target, {.name = "samples_to_target", .title = titled("samples")},
              samples_until),
          figure_until(target,
                       {.name = "flops_to_target",
                        .title = titled("computed"),
                        .unit = "FLOP"},
                       work_until(flops_in)),
          figure_until(target,
                       {.name = "sequential_flops_to_target",
                        .title = titled("sequential"),
                        .unit = "FLOP"},
                       work_until(sequential_flops_in)),
          figure_until(target,
                       {.name = "seconds_to_target",
                        .title = titled("time"),
                        .unit = "s",
                        .is_measured = true},
                       seconds_until),
          figure_until(target,
                       {.name = "virtual_seconds_to_target",
                        .title = titled("virtual time"),
                        .unit = "s",
                        .is_measured = true,
                        .note = "virtual time until then: that of the run, in "
                                "proportion to its turns"},
                       virtual_seconds_until)};
}

}  // namespace sluice::report
