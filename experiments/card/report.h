#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "experiments/card/card.h"
#include "experiments/runs/checkpoints/run_state.h"

namespace sluice {

enum class CardVerdict { passed, failed, open };

/// A run of a card beside the published figure.
struct CardRow {
  CardRun run = {};
  RunState state = {};
  bool is_trial = false;  ///< overrides have changed its numbers

  /// The run's result, in the unit of its measure; nothing before the run is
  /// done.
  std::optional<double> ours() const;
  /// The run's result less the published one.
  std::optional<double> difference() const;
  /// The row's verdict; nothing when the row is not judged by itself, and for a
  /// trial.
  std::optional<CardVerdict> verdict() const;
};

/// Report of a card on its runs.
struct CardReport {
  Card card = {};
  std::string command = {};
  std::vector<CardRow> rows = {};  ///< in the order of card.runs

  /// Whether any row's numbers are not the card's: then nothing passes.
  bool is_trial() const;
  CardVerdict verdict_of(const Condition& condition) const;
  /// open: something has not been run yet, or is a trial.
  CardVerdict verdict() const;
};

std::string markdown_of(const CardReport& report);
nlohmann::ordered_json json_of(const CardReport& report);

}  // namespace sluice
