#pragma once

#include <compare>
#include <set>
#include <string>
#include <vector>

#include "experiments/report/study/study.h"

namespace sluice::report {

/// Policies of a cell's boundaries, each named once, bottom first: "backprop,
/// local_loss". "backprop" for a cell without boundaries; empty when none of
/// its runs has begun.
std::string method_of(const StudyCell& cell);

/// Style of a cell in every chart: a colour for its method, and different
/// dashes and marks for the cells of one method.
struct CellStyle {
  int colour = 0;   ///< of chart_style.h
  int variant = 0;  ///< which dashes, and which mark

  auto operator<=>(const CellStyle&) const = default;
};
constexpr int kStyleColours = 8;
constexpr int kStyleDashes = 5;
constexpr int kStyleMarks = 6;
constexpr int kStyleVariants = kStyleDashes * kStyleMarks;

/// Deals out styles, none twice before all are used up.
class StyleBook {
 public:
  /// The next of a colour; when it has no more, one of another colour.
  CellStyle next(int colour);

 private:
  std::set<CellStyle> used_;
};

/// Styles in the order of the cells.
std::vector<CellStyle> styles_of(const Study& study);

}  // namespace sluice::report
