#include "experiments/report/page/page.h"

#include <fmt/format.h>
#include <sluice_page.h>

#include "experiments/report/charts/chart_style.h"
#include "experiments/report/charts/html.h"

namespace sluice::report {
namespace {

/// The colours of charts, and shades for areas.
std::string colours() {
  std::string style =
      fmt::format(
          ":root{{{}}}\n@media(prefers-color-scheme:dark){{:root{{{}}}}}\n",
          variables_of(light_colours()), variables_of(dark_colours())) +
      chart_style(variable_colours());
  for (int i = 0; i < 8; ++i)
    style += fmt::format(
        ".s{0}{{fill:var(--s{0})}}.swatch.s{0}{{background:var(--s{0})}}\n", i);
  return style;
}

}  // namespace

std::string page_of(const std::string& title, const std::string& lead,
                    const std::vector<PageSection>& sections) {
  std::string links;
  std::string body;
  for (const PageSection& section : sections) {
    if (section.html.empty()) continue;
    links += fmt::format("<a href=\"#{}\">{}</a>\n", section.anchor,
                         escaped(section.title));
    body += fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n{}\n</section>\n",
                        section.anchor, escaped(section.title), section.html);
  }
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, "
      "initial-scale=1\"/>\n<title>{0}</title>\n<style>{1}{2}</style>\n"
      "</head>\n<body>\n<header>\n<h1>{0}</h1>\n<p class=\"lead\">{3}</p>\n"
      "<nav>\n{4}</nav>\n</header>\n<main>\n{5}</main>\n"
      // CDATA makes the script text for readers of XML, too.
      "<script>//<![CDATA[\n{6}{7}{8}//]]></script>\n</body>\n</html>\n",
      escaped(title), kPageStyle, colours(), escaped(lead), links, body,
      kChartScript, kTableScript, kFoldScript);
}

}  // namespace sluice::report
