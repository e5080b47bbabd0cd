#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/report/study/statistics.h"
#include "experiments/report/study/study.h"
#include "experiments/report/study/target.h"
#include "experiments/report/study/work.h"

namespace sluice::report {

/// A figure that runs end with.
struct Figure {
  std::string name = {};   ///< "test_accuracy": of a column in a CSV file
  std::string title = {};  ///< "test accuracy"
  std::string unit = {};   ///< of `scale`d values, "%"; or empty
  double scale = 1;
  int digits = 2;  ///< after the point, of scaled values
  bool higher_is_better = false;
  /// Measured in time, rates or memory: differs from machine to machine, and
  /// from one run of the same numbers to the next.
  bool is_measured = false;
  bool is_derived = false;  ///< follows from the config: all seeds agree
  std::string note = {};    ///< what one must know to read it

  std::string heading() const;  ///< "test accuracy, %"
};

/// A figure of all cells, as a column of the table.
struct Column {
  Figure figure = {};
  /// Values by cell and run; nothing where a run is not done or doesn't know.
  std::vector<std::vector<std::optional<double>>> values = {};
  /// Figures by cell, unscaled; a cell with censored runs has none.
  std::vector<Spread> spreads = {};
  /// By cell: runs that are done and never came to what the figure counts
  /// until.
  std::vector<int> censored = {};
  std::optional<std::size_t> winner = {};

  std::string text(std::size_t cell) const;
  /// Mean of a cell, unscaled; NaN where there is none.
  double mean(std::size_t cell) const { return spreads[cell].mean; }
};

/// The figures that any cell has, test accuracy first; `work` is by cell. With
/// `only_numbers`, those with Figure::is_measured are left out. `target`:
/// there are columns of what runs took until they came to it.
std::vector<Column> columns_of(const Study& study,
                               const std::vector<std::optional<TurnWork>>& work,
                               bool only_numbers,
                               const std::optional<Target>& target = {});

/// The column of the figure with that name, or nullptr.
const Column* find_column(const std::vector<Column>& columns,
                          const std::string& name);

/// The column to choose a cell by that is then judged by `figure`: the same
/// figure of the validation split, where all cells have one; else that figure
/// itself.
const Column& column_to_choose_by(const std::vector<Column>& columns,
                                  const Column& figure);
/// "validation" or "test": the split of column_to_choose_by() for accuracies.
std::string split_to_choose_by(const std::vector<Column>& columns);

/// The bytes of all blocks at their peaks; nothing where they were not counted.
std::optional<double> peak_bytes(const RunRecord& run);

}  // namespace sluice::report
