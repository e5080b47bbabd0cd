#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/card/condition.h"
#include "lib/base/config_node.h"

namespace sluice {

/// A run of a card, and the figure that it is compared with.
struct CardRun {
  std::string name = {};  ///< letters, digits and _: its folder too
  /// What the card says, without what is on the command line.
  ConfigNode config = {};
  /// What is taken from the last evaluation: accuracy (%), error (100 % less
  /// that) or loss.
  std::string measure = {};
  std::optional<double> published = {};
  /// The run passes when it is no farther from `published`; without it the
  /// figures are shown and judged by the card's conditions alone.
  std::optional<double> tolerance = {};

  std::string unit() const { return measure == "loss" ? "" : "%"; }
};

/// A published result to reproduce: the file
///
///   [card]
///   title = "..."               # also source, compares, note: shown
///   conditions = ["a > b"]      # condition.h
///   [overrides]                 # of the configs of all runs
///   epochs = 5
///   [[run]]
///   name = "a"
///   config = "../mnist/x.toml"  # relative to the card
///   overrides = {optimizer = {lr = 1e-3}}
///   measure = "accuracy"
///   published = 56.2
///   tolerance = 5
struct Card {
  std::string name = {};  ///< of the file, without .toml
  std::string path = {};
  std::string title = {};
  std::string source = {};
  std::string compares = {};
  std::string note = {};
  std::vector<CardRun> runs = {};
  std::vector<Condition> conditions = {};

  /// Throws UserError that names all runs of the card.
  const CardRun& find(const std::string& run) const;
};

/// Whether the TOML file has a table [card]: an experiment's config has none.
bool is_card(const std::string& path);

/// Throws UserError for everything that is wrong with the card, naming file,
/// line and key; but the configs of its runs are not resolved yet.
Card read_card(const std::string& path);

}  // namespace sluice
