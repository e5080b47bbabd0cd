#include "experiments/planner/comparison_text.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace sluice::planner {
namespace {

constexpr double kMiB = 1 << 20;
/// Least speed-up that counts as a gain.
constexpr double kGain = 1.05;
/// Rounds disagree where their spread over their median is larger.
constexpr double kSpread = 0.1;
constexpr std::int64_t kFewRounds = 3;
constexpr double kCaches = 1.25;
/// Cores that others may take: of the machine's, and at most.
constexpr double kOthersOfCores = 0.1;
constexpr double kMostOthers = 0.5;

std::string seconds_text(double seconds) {
  return seconds < 1 ? fmt::format("{:.3g} ms", 1e3 * seconds)
                     : fmt::format("{:.3g} s", seconds);
}

/// Whether blocks and replicas can be so much faster than one block. More than
/// one core for each gains only what smaller parts gain in the caches.
bool is_credible(const Prediction& row) {
  return row.speed.speed_up <=
         kCaches * static_cast<double>(row.blocks * row.replicas);
}

bool gains(const Prediction& row) {
  return row.impossible.empty() && is_credible(row) &&
         row.speed.speed_up >= kGain;
}

/// Whether rounds disagree; those of a row that surely gains nothing may.
bool is_noisy(const Prediction& row) {
  return row.upper_quartile >= kGain &&
         row.upper_quartile - row.lower_quartile > kSpread * row.speed.speed_up;
}

bool gains_and_fits(const Prediction& row) {
  return gains(row) && !is_noisy(row) && row.too_large.empty();
}

bool is_beside_others(const Comparison& comparison) {
  return comparison.others >
         std::min(kMostOthers, kOthersOfCores * comparison.cores);
}

std::string utilisation_text(const Prediction& row) {
  std::vector<std::string> parts;
  for (const double part : row.speed.utilisation)
    parts.push_back(fmt::format("{:.0f}", 100 * part));
  return fmt::format("{}", fmt::join(parts, " "));
}

/// Memory as text; unknown where Sluice's allocator isn't used.
std::string memory_text(const Prediction& row) {
  std::vector<std::string> parts;
  for (const records::Memory& memory : row.memory)
    parts.push_back(
        memory.peak_bytes
            ? fmt::format("{:.3g}",
                          static_cast<double>(*memory.peak_bytes) / kMiB)
            : "-");
  return fmt::format("{}", fmt::join(parts, " "));
}

/// Quartiles as text; empty for one block, which the others are measured by,
/// and where rounds are too few for an interval.
std::string quartiles_text(const Prediction& row, std::int64_t rounds) {
  return row.blocks * row.replicas == 1 || rounds < kFewRounds
             ? ""
             : fmt::format("{:.2f}-{:.2f}", row.lower_quartile,
                           row.upper_quartile);
}

std::string remark_of(const Prediction& row) {
  std::string remark = row.too_large.empty() ? "" : "too large";
  const auto add = [&](const char* text) {
    remark += fmt::format("{}{}", remark.empty() ? "" : ", ", text);
  };
  if (row.blocks * row.replicas > 1 && row.speed.speed_up < kGain)
    add("no gain here");
  if (is_noisy(row)) add("rounds disagree");
  return remark;
}

std::string line_of(const Prediction& row, std::int64_t rounds) {
  std::string line =
      fmt::format("{:<32}{:>2}{:>4}", row.method, row.blocks, row.replicas);
  if (!row.impossible.empty()) return line + "  can't: see below\n";
  if (!is_credible(row)) return line + "  measured wrongly: see below\n";
  line += fmt::format(
      "{:>9}{:>10}{:>10}{:>8.2f}x  {:<11}  {:<14}{:>6.0f}{:>9.2f}  {:<20}  {}",
      row.threads, seconds_text(row.speed.seconds_per_turn),
      seconds_text(row.seconds_per_epoch), row.speed.speed_up,
      quartiles_text(row, rounds), utilisation_text(row),
      100 * bubble_of(row.speed), row.speed.bytes_per_turn / kMiB,
      memory_text(row), remark_of(row));
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

/// A shape as text: "backprop in 2 blocks, 4 replicas".
std::string shape_text(const Prediction& row) {
  std::string text = row.method;
  if (row.blocks > 1) text += fmt::format(" in {} blocks", row.blocks);
  if (row.replicas > 1) text += fmt::format(", {} replicas", row.replicas);
  return text;
}

std::string notes_of(const Prediction& row) {
  const std::string what = shape_text(row);
  if (!row.impossible.empty())
    return fmt::format("{}: {}\n", what, row.impossible);
  if (!is_credible(row))
    return fmt::format(
        "{}: more than {} x as fast as one block, which can't be: the machine "
        "did other work meanwhile.\n",
        what, row.blocks * row.replicas);
  std::string notes;
  for (const std::string& text : row.too_large)
    notes += fmt::format("{}: {}\n", what, text);
  return notes;
}

/// A warning to read before the table.
std::string warning_of(const Comparison& comparison) {
  if (!is_beside_others(comparison)) return "";
  return fmt::format(
      "Doubtful: other programs kept {:.1f} of {:.0f} cores busy. Try again "
      "when they are done.\n\n",
      comparison.others, comparison.cores);
}

/// Reasons to doubt the comparison.
std::string doubts_of(const Comparison& comparison) {
  std::string doubts;
  if (comparison.rounds > 0 && comparison.rounds < kFewRounds)
    doubts += fmt::format(
        "Doubtful: {} of {} rounds that it takes at least. Give --seconds "
        "{:.0f}.\n",
        comparison.rounds, kFewRounds,
        std::ceil(comparison.seconds * kFewRounds /
                  static_cast<double>(comparison.rounds)));
  if (std::any_of(comparison.rows.begin(), comparison.rows.end(), is_noisy))
    doubts += fmt::format(
        "Doubtful: rounds disagree, as their quartiles show, by more than "
        "{:.0f} %.\n",
        100 * kSpread);
  return doubts;
}

/// The fastest row that gains and fits, or of the exact pipelines that do; the
/// rows' end where there is none.
std::vector<Prediction>::const_iterator best_of(
    const std::vector<Prediction>& rows, bool only_pipelines) {
  const auto value = [&](const Prediction& row) {
    const bool counts = row.is_pipeline || !only_pipelines;
    return counts && gains_and_fits(row) ? row.speed.speed_up : 0;
  };
  const auto best = std::max_element(rows.begin(), rows.end(),
                                     [&](const auto& left, const auto& right) {
                                       return value(left) < value(right);
                                     });
  return best != rows.end() && value(*best) > 0 ? best : rows.end();
}

std::string text_of_best(std::string_view what, const Prediction& row) {
  return fmt::format("{}: {}, {:.2f} x one block.\n", what, shape_text(row),
                     row.speed.speed_up);
}

std::string conclusion_of(const Comparison& comparison) {
  const auto& rows = comparison.rows;
  const auto best = best_of(rows, false);
  const bool is_found = best != rows.end();
  if (is_beside_others(comparison)) return "No conclusion.\n";
  if (!is_found && std::any_of(rows.begin(), rows.end(), is_noisy))
    return "No conclusion.\n";
  if (!is_found && std::any_of(rows.begin(), rows.end(), gains))
    return "Nothing that gains fits into these devices.\n";
  if (!is_found)
    return fmt::format(
        "No gain here: nothing is {:.2f} x as fast as one block.\n", kGain);
  const auto exact = best_of(rows, true);
  std::string text = text_of_best("Fastest", *best);
  if (exact != rows.end() && exact != best)
    text += text_of_best("Fastest exact pipeline", *exact);
  return text;
}

}  // namespace

std::string text_of(const Comparison& comparison) {
  std::string text = warning_of(comparison);
  text += comparison.rounds > 0
              ? fmt::format(
                    "Predicted, from {} rounds of measurement in {:.0f} s "
                    "(medians):\n\n",
                    comparison.rounds, comparison.seconds)
              : "Computed from the operations of layers and heads, and the "
                "devices' flops;\nupdates, and all that isn't a layer's, take "
                "no time:\n\n";
  text += fmt::format(
      "{:<32}{:>2}{:>4}{:>9}{:>10}{:>10}{:>9}  {:<11}  {:<14}{:>6}{:>9}  {}\n",
      "method", "K", "R", "threads", "batch", "epoch", "speed-up", "quartiles",
      "busy %", "idle %", "sent MiB", "peak MiB");
  text += line_of(comparison.one_block, comparison.rounds);
  for (const Prediction& row : comparison.rows)
    text += line_of(row, comparison.rounds);
  text +=
      "\nK: blocks; R: replicas; batch: of each replica; speed-up: in samples "
      "per "
      "second over one\nblock that back-propagates, with its threads; busy "
      "and peak: of each\nblock, first to last; idle: of all, on average (the "
      "bubble); sent: "
      "of a batch over\nall boundaries; epoch: without evaluations.\n\n";
  text += notes_of(comparison.one_block);
  for (const Prediction& row : comparison.rows) text += notes_of(row);
  return text + doubts_of(comparison) + conclusion_of(comparison);
}

}  // namespace sluice::planner
