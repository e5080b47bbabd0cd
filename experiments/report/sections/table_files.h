#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "experiments/report/study/columns.h"

namespace sluice::report {

/// A note on the evaluation that each run is judged by, the split that chose
/// it, and where that was the test split itself.
std::string choice_note(const Study& study);
/// Names the cells whose runs were computed by different makers, `most_named`
/// of them, and in what these differ; empty: there is none.
std::string makers_note(const Study& study, std::size_t most_named);

/// A note on cells whose times and rates are of runs that shared their machine;
/// empty: none, or nothing of the kind is known. More than `most_named` are
/// counted, not named.
std::string sharing_note(const Study& study, const std::vector<Column>& columns,
                         std::size_t most_named);

/// "3 of 3", "2 of 3, 1 failed, 1 stopped early": how many runs of a cell are
/// done, what became of the others, and which did fewer turns than they might.
std::string runs_text(const StudyCell& cell);

/// The table in Markdown; winners are bold, cells with failed runs marked.
std::string markdown_of(const Study& study, const std::vector<Column>& columns);

/// A row for each cell: what it is, then mean, std and n of each figure, in
/// full and unscaled (accuracy from 0 to 1, seconds, bytes).
std::string csv_of(const Study& study, const std::vector<Column>& columns);

/// Table as CSV with a row for each run.
std::string csv_of_runs(const Study& study, const std::vector<Column>& columns);

}  // namespace sluice::report
