#include "experiments/report/page/page.h"

#include <fmt/format.h>

#include "experiments/report/charts/chart_style.h"
#include "experiments/report/charts/html.h"
#include "experiments/report/page/page_script.h"

namespace sluice::report {
namespace {

/// c0 to c7 are the colours of chart_style.h; s0 to s7 are shades for parts of
/// a whole.
constexpr const char* kStyle = R"(
:root{color-scheme:light dark;--ground:#fff;--bad:#a4262c;--badground:#fbeaea;
--s0:#0b3c5d;--s1:#2f6690;--s2:#5b8fb9;--s3:#8ab6d6;--s4:#b5c99a;--s5:#d9a441;
--s6:#cfd4da;--s7:#8c6bb1;--on-deep:#fff;--on-pale:#14171b}
@media(prefers-color-scheme:dark){:root{--ground:#14171b;--bad:#ff9a9a;
--badground:#3a1f22;
--s0:#cfe3f3;--s1:#9cc3e2;--s2:#6a9dc8;--s3:#43739e;--s4:#7d9a5c;--s5:#d9a441;
--s6:#4a515b;--s7:#b39ddb;--on-deep:#14171b;--on-pale:#fff}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1760px;padding:24px 20px 64px;background:var(--ground);
color:var(--text);font:16px/1.5 system-ui,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
h1{font-size:1.7rem;line-height:1.2;margin:0 0 4px;overflow-wrap:anywhere}
h2{font-size:1.25rem;margin:44px 0 8px;border-bottom:1px solid var(--line);
padding-bottom:4px}
h3{font-size:1rem;margin:22px 0 6px;overflow-wrap:anywhere}
p{margin:6px 0;max-width:75ch}
.soft,.lead{color:var(--soft)}
nav{margin:10px 0 0;display:flex;flex-wrap:wrap;gap:4px 16px}
a{color:var(--c1)}
.scroll{overflow-x:auto;margin:10px 0;border:1px solid var(--line);border-radius:6px}
table{border-collapse:collapse;width:100%;font-size:.9rem;
font-variant-numeric:tabular-nums}
th,td{padding:7px 9px;text-align:right;white-space:nowrap;
border-bottom:1px solid var(--line)}
tr:last-child td,tr:last-child th{border-bottom:0}
thead th{background:var(--panel);font-weight:600;color:var(--soft)}
th:first-child{text-align:left;position:sticky;left:0;background:var(--ground);
min-width:18rem;max-width:26rem;white-space:normal;overflow-wrap:break-word;font-weight:500}
.cell{display:flex;align-items:center}
thead th:first-child{background:var(--panel);font-weight:600}
td.text,th.text{text-align:left}
td b{font-weight:700}
.n{color:var(--soft);font-size:.85em}
tr.failed th:first-child{box-shadow:inset 3px 0 0 var(--bad)}
tr.open th:first-child{box-shadow:inset 3px 0 0 var(--soft)}
.failed .runs{color:var(--bad);font-weight:600}
ul.failures{padding:8px 12px 8px 28px;background:var(--badground);border-radius:6px;
overflow-wrap:anywhere}
ul.legend{list-style:none;display:flex;flex-wrap:wrap;gap:4px 18px;padding:0;
margin:10px 0;font-size:.9rem}
.legend li{display:flex;align-items:center;gap:6px;overflow-wrap:anywhere}
svg.key{width:34px;height:14px;flex:none;vertical-align:middle;margin-right:6px}
.charts{display:grid;margin:14px 0;grid-template-columns:repeat(auto-fill,minmax(min(100%,340px),1fr));
gap:14px}
.charts.multiples{grid-template-columns:repeat(auto-fill,
minmax(max(min(100%,290px),(100% - 14px*(var(--panels) - 1))/var(--panels) - 1px),1fr))}
@media(max-width:1239px){.missing{display:none}}
.multiples svg text{font-size:15px}
.legend li[role=button]{cursor:pointer}.legend li.off{opacity:.35;text-decoration:line-through}
.chart-box{background:var(--panel);border-radius:6px;max-width:600px;position:relative}
.chart-box>svg{display:block;width:100%}
.said{position:absolute;z-index:1;pointer-events:none;max-width:100%;padding:4px 8px;
font-size:.8rem;line-height:1.35;overflow-wrap:anywhere;background:var(--ground);
border:1px solid var(--line);border-radius:4px;box-shadow:0 1px 6px #0003}
.said>*{display:block}
.axes{margin:-17px 0 0;padding:0 8px 6px;display:flex;gap:4px}
.axes button{font-size:.72rem;padding:0 5px}
.here{fill:none;stroke:var(--text);stroke-width:1.5;pointer-events:none}
button,select,input[type=search]{font:inherit;font-size:.85rem;color:var(--text);
background:var(--ground);border:1px solid var(--line);border-radius:4px;padding:1px 7px;
max-width:100%}
button[aria-pressed=true]{border-color:var(--text);font-weight:600}
.tools label{margin-right:18px;font-size:.9rem}
.filters{display:flex;flex-wrap:wrap;gap:6px;max-width:none}
#all-figures:not(:checked)~.scroll .more{display:none}
#only-best:checked~.scroll tbody tr:not(.best){display:none}
.results thead th{cursor:default;white-space:normal;vertical-align:bottom}
.results thead th[tabindex]{cursor:pointer}
output{color:var(--soft);font-size:.85rem}
th[aria-sort=ascending]::after{content:" \2191"}th[aria-sort=descending]::after{content:" \2193"}
.compact th:first-child{min-width:0;white-space:nowrap}
.compact{font-size:.85rem}.compact td,.compact th{padding:5px 8px}
.compact td.long{white-space:normal;min-width:12rem;overflow-wrap:anywhere}
tr.best td,tr.best th:first-child{background:var(--panel)}
.charts>svg,.charts>figure{background:var(--panel);border-radius:6px;width:100%;
max-width:600px;margin:0}
figure>svg{display:block;width:100%}
figcaption{padding:10px 12px 0;font-size:.9rem;overflow-wrap:anywhere}
.first-layer{display:block;max-width:none;image-rendering:pixelated;
background:var(--panel)}
svg.timeline{display:block;width:100%;min-width:900px;padding:8px 0;background:var(--panel)}
svg .on-s0,svg .on-s1{fill:var(--on-deep)}svg .on-s3,svg .on-s4{fill:var(--on-pale)}
svg .on-s5{fill:#14171b}
.arrow{stroke:var(--soft);stroke-width:1;opacity:.55;fill:none}
details{border:1px solid var(--line);border-radius:6px;margin:8px 0;padding:0 12px}
summary{cursor:pointer;padding:8px 0;font-weight:500;overflow-wrap:anywhere}
pre{overflow-x:auto;background:var(--panel);padding:10px 12px;border-radius:6px;
font:13px/1.45 ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace}
code{font-family:ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;
font-size:.92em;overflow-wrap:anywhere}
@media(max-width:600px){body{padding:16px 12px 48px;font-size:15px}
th:first-child{min-width:8.5rem;max-width:9.5rem}th,td{padding:6px 9px}
.charts.multiples{grid-template-columns:none;grid-auto-flow:column;
grid-auto-columns:90%;overflow-x:auto}}
.fold{border:0;margin:0;padding:0}
@media print{.scroll{overflow:visible}}
)";

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
      escaped(title), kStyle, colours(), escaped(lead), links, body,
      kPageScript, kTableScript, kFoldScript);
}

}  // namespace sluice::report
