#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "experiments/report/study/columns.h"
#include "experiments/report/study/study.h"

namespace sluice::report {

/// A cell at a number of an axis.
struct AxisPoint {
  double x = 0;
  std::size_t cell = 0;  ///< of the study
};

/// Cells that differ in the numbers of their axes only.
struct AxisLine {
  std::string label = {};  ///< what the labels of its cells share but numbers
  std::vector<AxisPoint> points = {};  ///< by x
};

/// The axes of which every value is a number, with at least two of those; how
/// many blocks there are is one.
std::vector<std::size_t> number_axes(const Study& study);

/// The axis and others from which a line takes the best: a learning rate for
/// instance, but not the number of blocks, which is not tuned.
std::vector<std::size_t> chosen_along(const Study& study, std::size_t axis);

/// The lines along such an axis, of cells that a figure chooses. Where cells
/// differ in the numbers of other axes that are chosen along it, each place has
/// the one with the best mean. A cell for which an axis doesn't hold, such as a
/// single block that has no boundary, lies on the lines of all its values. Only
/// lines with two points and more.
std::vector<AxisLine> lines_along(const Study& study, const Column& figure,
                                  std::size_t axis);

/// The best of cells that differ in tuned numbers only.
struct BestCell {
  std::size_t cell = 0;    ///< of the study
  std::string line = {};   ///< its label without those numbers and the blocks
  std::size_t blocks = 0;  ///< how many; 0: unknown
  std::size_t of = 1;      ///< cells that it was chosen from
};

/// Best cells: for each value of the axes that aren't tuned, the one with the
/// best mean of the test accuracy (of the loss, where no cell has an accuracy),
/// chosen by column_to_choose_by(); in the order of the study. Tuned are the
/// axes of number_axes(), but those that change what is trained: how many
/// blocks, replicas or data there are, and the model.
std::vector<BestCell> best_cells(const Study& study,
                                 const std::vector<Column>& columns);

}  // namespace sluice::report
