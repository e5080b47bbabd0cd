"""Opens a report of many cells in a headless Chromium, in windows of 400, 1280
and 1920 pixels, light and dark, and uses it as a reader would.

usage: read_report.py REPORT.html [FOLDER FOR PICTURES]

Fails where a script or the console reports an error, where something is wider
than the page, where the table isn't whole at 1280 pixels, where sorting,
filters, legends, axes or values under the pointer don't do what they should, or
where a phone gets more than it can scroll through.
"""
import pathlib
import sys

import chromium

WIDTHS = (400, 1280, 1920)
HEIGHT = 900
PHONE = (400, 800)
LONGEST_ON_PHONE = 10 * PHONE[1]

# What sticks out of the page, but for what scrolls by itself.
WIDER = """[...document.querySelectorAll('body *')].filter(element =>
  !element.closest('svg *') && element.checkVisibility() &&
  !scrolls(element.parentElement) &&
  element.getBoundingClientRect().right >
      document.documentElement.clientWidth + 1)
  .map(element => element.tagName + '.' + element.className).slice(0, 5)"""

# What the script of the page under test has no name for.
HELPERS = """
var scrolls = element => element !== null &&
    (getComputedStyle(element).overflowX === 'auto' ||
     scrolls(element.parentElement));
var rows = () => [...document.querySelectorAll('table.results tbody tr')];
var shown = () => rows().filter(row => row.checkVisibility());
var head = name => [...document.querySelectorAll('table.results thead th')]
    .findIndex(head => head.textContent === name);
var key = (row, column) => row.children[column].dataset.value;
var press = element => { element.click(); };
var choose = (name, value) => {
  const select = document.querySelector('select[aria-label="' + name + '"]');
  select.value = value;
  select.dispatchEvent(new Event('change'));
};
var chart = document.querySelector('#curves svg.chart');
"""


def check_widths(page, pictures):
    page.evaluate("document.querySelectorAll('details').forEach("
                  "details => { details.open = true; })")
    for width in WIDTHS:
        for is_dark in (False, True):
            page.resize(width, HEIGHT, is_dark)
            wider = page.evaluate(WIDER)
            assert not wider, f"wider than the page of {width} pixels: {wider}"
            if pictures:
                name = f"{width}-{'dark' if is_dark else 'light'}.png"
                height = page.evaluate("document.documentElement.scrollHeight")
                page.take_picture(pathlib.Path(pictures) / name,
                                  (0, 0, width, min(height, 16000)))
    page.resize(1280, HEIGHT)
    page.evaluate("document.querySelectorAll('details').forEach("
                  "details => { details.open = false; })")
    page.evaluate("document.querySelector('#all-figures')?.checked && "
                  "document.querySelector('#all-figures').click()")
    assert page.evaluate("(frame => frame.scrollWidth <= frame.clientWidth)"
                         "(document.querySelector('#results .scroll'))"), (
        "the table of results isn't whole at 1280 pixels")


def check_sorting(page):
    def order():
        column = page.evaluate("head('test accuracy, %')")
        return [float(value) for value in page.evaluate(
            f"rows().map(row => key(row, {column}))") if value]

    def press():
        page.evaluate("document.querySelectorAll('table.results thead th')"
                      "[head('test accuracy, %')].click()")

    written = order()
    press()
    assert order() == sorted(written)
    press()
    assert order() == sorted(written, reverse=True)
    press()
    assert order() == written != sorted(written), "as it came"


def check_filters(page):
    count = page.evaluate("rows().length")
    assert page.evaluate("shown().length") == count
    page.evaluate("document.querySelector('#only-best').click()")
    best = page.evaluate("shown().length")
    assert 0 < best < count
    page.evaluate("document.querySelector('#only-best').click()")
    page.evaluate("choose('blocks', '2')")
    left = page.evaluate("shown().map(row => key(row, head('blocks')))")
    assert left and set(left) == {"2"} and len(left) < count, left
    assert (page.evaluate("document.querySelector('output').textContent")
            == f"{len(left)} of {count}")
    page.evaluate("choose('blocks', '')")
    page.evaluate("""(search => {
        search.value = 'delayed';
        search.dispatchEvent(new Event('input'));
    })(document.querySelector('input[type=search]'))""")
    found = page.evaluate("shown().map(row => row.textContent)")
    assert found and all("delayed" in text for text in found)
    assert len(found) < count
    page.evaluate("""(search => {
        search.value = '';
        search.dispatchEvent(new Event('input'));
    })(document.querySelector('input[type=search]'))""")
    assert page.evaluate("shown().length") == count


def check_legend(page):
    visible = ("[...chart.querySelectorAll('g.series')].filter("
               "series => series.style.display !== 'none').length")
    entry = "document.querySelector('#curves .legend li')"
    count = page.evaluate(visible)
    page.evaluate(f"press({entry})")
    assert page.evaluate(visible) == count - 1
    assert page.evaluate(f"{entry}.getAttribute('aria-pressed')") == "false"
    page.evaluate(f"press({entry})")
    assert page.evaluate(visible) == count
    many = "document.querySelector('#curves details .group')"
    left = (f"[...{many}.querySelectorAll('g.series')].filter("
            "series => series.style.display !== 'none').length")
    button = (f"name => [...{many}.querySelectorAll('.filters button')].find("
              "button => button.textContent === name).click()")
    count = page.evaluate(left)
    page.evaluate(f"({button})('none')")
    assert page.evaluate(left) == 0
    page.evaluate(f"({button})('all')")
    assert page.evaluate(left) == count > 8


def check_axes(page):
    ticks = ("[...chart.querySelectorAll('.tick[text-anchor=middle]')]"
             ".map(tick => tick.textContent)")
    button = ("[...chart.parentElement.querySelectorAll('button')].find("
              "button => button.textContent === 'log x')")
    line = "chart.querySelector('polyline').getAttribute('points')"
    written = page.evaluate(line)
    linear = page.evaluate(ticks)
    page.evaluate(f"press({button})")
    logarithmic = page.evaluate(ticks)
    assert len(logarithmic) > 1 and logarithmic != linear
    assert page.evaluate(line) != written
    assert "NaN" not in page.evaluate("chart.innerHTML")
    page.evaluate(f"press({button})")
    assert page.evaluate(line) == written and page.evaluate(ticks) == linear


def check_values(page):
    x, y = page.evaluate("""(() => {
        chart.scrollIntoView({block: 'center'});
        const box = chart.querySelector('.mark').getBoundingClientRect();
        return [box.x + box.width / 2, box.y + box.height / 2];
    })()""")
    said = "chart.parentElement.querySelector('.said')"
    assert page.evaluate(f"{said}.hidden")
    page.point_at(x + 1, y + 1)
    text = page.evaluate(f"{said}.innerText")
    assert text.startswith("turns: ") and "\u00b1" in text, text
    label = page.evaluate("chart.querySelector('g.series').dataset.label")
    assert label in text, (label, text)
    inside = page.evaluate(f"(box => box.left >= 0 && box.right <= innerWidth)"
                           f"({said}.getBoundingClientRect())")
    assert inside, "the value is cut off"
    page.point_at(1, 1)
    assert page.evaluate(f"{said}.hidden")


def check_colours(page):
    lines = page.evaluate(
        "[...document.querySelectorAll('#curves .legend')][0] && "
        "[...document.querySelector('#curves .legend').querySelectorAll('svg')]"
        ".map(svg => getComputedStyle(svg.querySelector('line')).stroke)")
    assert len(set(lines)) == len(lines), lines


def check_phone(page, url):
    """Loaded there, long sections are folded: a link leads to what is in one."""
    height = "document.documentElement.scrollHeight"
    folds = "[...document.querySelectorAll('details.fold')]"
    assert page.evaluate(f"{folds}.length") == 0, "folded in a wide window"
    page.resize(*PHONE)
    page.open(url + "?phone")
    page.evaluate(HELPERS)
    assert page.evaluate(height) < LONGEST_ON_PHONE, page.evaluate(height)
    count = page.evaluate(f"{folds}.length")
    assert count > 2
    best = page.evaluate("document.querySelectorAll('tr.best').length")
    assert page.evaluate("shown().length") == best < page.evaluate(
        "rows().length")
    page.evaluate("document.querySelector('nav a[href=\"#curves\"]').click()")
    assert page.evaluate(f"{folds}.filter(fold => fold.open).length") == 1
    assert page.evaluate("document.querySelector('#curves .fold').open")
    # Multiples are swiped: beside the first one there is more.
    assert page.evaluate("(row => row.scrollWidth > 2 * row.clientWidth)("
                         "document.querySelector('#curves .multiples'))")
    wider = page.evaluate(WIDER)
    assert not wider, wider
    link = "document.querySelector('table.results a[href^=\"#cell-\"]')"
    cell = f"document.querySelector({link}.hash)"
    assert not page.evaluate(f"{cell}.checkVisibility()")
    page.evaluate(f"{link}.click()")
    assert page.evaluate(f"{cell}.open && {cell}.checkVisibility()")
    top = page.evaluate(f"{cell}.getBoundingClientRect().top")
    assert -1 <= top < PHONE[1], top
    page.resize(1280, HEIGHT)


def main(report, pictures=None):
    url = pathlib.Path(report).absolute().as_uri()
    with chromium.opened("about:blank") as page:
        page.watch_errors()
        page.resize(2400, HEIGHT)
        page.open(url)
        assert page.evaluate("(box => !box || box.checked)"
                             "(document.querySelector('#all-figures'))"), (
            "there is room for all figures")
        page.resize(1280, HEIGHT)
        page.open(url + "?again")
        page.evaluate(HELPERS)
        check_widths(page, pictures)
        for check in (check_sorting, check_filters, check_legend, check_axes,
                      check_values, check_colours):
            check(page)
            assert not page.errors, (check.__name__, page.errors)
        check_phone(page, url)
        assert not page.errors, page.errors
    print(f"{report}: read and used in windows of {WIDTHS} pixels")


if __name__ == "__main__":
    main(*sys.argv[1:])
