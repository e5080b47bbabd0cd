#pragma once

#include <array>
#include <string>

namespace sluice::report {

/// What charts are drawn with, as CSS colours. `cells` are those of
/// CellStyle::colour: Okabe and Ito's, which readers with any colour vision
/// tell apart, darkened or lightened to stand out from the ground.
struct ChartColours {
  std::string text = {};
  std::string soft = {};   ///< of labels
  std::string line = {};   ///< of grids
  std::string panel = {};  ///< behind a chart
  std::array<std::string, 8> cells = {};
};
ChartColours light_colours();
ChartColours dark_colours();

/// "--text:#1c1f23;--c0:#2b2f36;...": CSS variables with these colours.
std::string variables_of(const ChartColours& colours);
/// Colours as CSS variables: "var(--text)".
ChartColours variable_colours();

/// The CSS rules of what chart.h draws.
std::string chart_style(const ChartColours& colours);

}  // namespace sluice::report
