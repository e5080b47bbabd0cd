#include "experiments/report/charts/chart_style.h"

#include <fmt/format.h>

namespace sluice::report {
namespace {

/// A set of CSS variables: {0} text, {1} soft, {2} line, {3} panel.
constexpr const char* kRules =
    R"(svg text{{fill:{0};font:13px system-ui,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}}
svg .tick,svg .axis-label{{fill:{1}}}
svg .chart-title{{font-weight:600}}
.grid{{stroke:{2};stroke-width:1}}
.axis{{stroke:{1};stroke-width:1}}
.line{{fill:none;stroke-width:2;stroke-linejoin:round}}
.mark{{stroke-width:1.5}}.mark.v1,.mark.v4{{fill:{3}!important}}
.mark.v2,.mark.v3{{fill-opacity:.35}}.mark.v3,.mark.v4{{stroke-width:2.5}}
.band{{stroke:none;opacity:.15}}
.bar{{stroke-width:1.5;opacity:.7}}
.ring{{fill:none;stroke:{0};stroke-width:1.5}}
)";

}  // namespace

ChartColours light_colours() {
  return {.text = "#1c1f23",
          .soft = "#5a626c",
          .line = "#d9dde2",
          .panel = "#f6f7f9",
          .cells = {"#2b2f36", "#0067a5", "#cc5500", "#00805e", "#b04a86",
                    "#a36f00", "#6a4fc0", "#767d86"}};
}

ChartColours dark_colours() {
  return {.text = "#e4e7eb",
          .soft = "#9aa4af",
          .line = "#343a42",
          .panel = "#1c2026",
          .cells = {"#e6e8eb", "#5db2f0", "#ff8a4c", "#35c99b", "#ea93c3",
                    "#edb52e", "#a995f5", "#9aa2ab"}};
}

std::string variables_of(const ChartColours& colours) {
  std::string style =
      fmt::format("--text:{};--soft:{};--line:{};--panel:{};", colours.text,
                  colours.soft, colours.line, colours.panel);
  for (std::size_t i = 0; i < colours.cells.size(); ++i)
    style += fmt::format("--c{}:{};", i, colours.cells[i]);
  return style;
}

ChartColours variable_colours() {
  ChartColours colours{.text = "var(--text)",
                       .soft = "var(--soft)",
                       .line = "var(--line)",
                       .panel = "var(--panel)"};
  for (std::size_t i = 0; i < colours.cells.size(); ++i)
    colours.cells[i] = fmt::format("var(--c{})", i);
  return colours;
}

std::string chart_style(const ChartColours& colours) {
  std::string style = fmt::format(kRules, colours.text, colours.soft,
                                  colours.line, colours.panel);
  for (std::size_t i = 0; i < colours.cells.size(); ++i)
    style += fmt::format(
        ".line.c{0},.bar.c{0},.mark.c{0}{{stroke:{1}}}"
        ".band.c{0},.mark.c{0},.area.c{0}{{fill:{1}}}\n",
        i, colours.cells[i]);
  return style;
}

}  // namespace sluice::report
