"""Opens pages of the site in a headless Chromium, in windows of 400 and 1280
pixels, light and dark, and searches it.

usage: read_site.py SITE [FOLDER FOR PICTURES]

Fails where a script or the console reports an error, where something is wider
than the page, where it stays light or dark at the switch, or where a search finds nothing.
"""
import pathlib
import sys

import chromium

WIDTHS = (400, 1280)
HEIGHT = 900
PAGES = ("index.html", "docs/start.html", "docs/concepts/locks.html",
         "docs/howto/own-network.html", "docs/howto/compare.html",
         "docs/methods.html", "docs/speed.html", "keys/boundary.html",
         "methods/delayed_gradient.html", "records/index.html")

# What sticks out of the page, but for what scrolls or is off the screen.
WIDER = """[...document.querySelectorAll('.md-content *')].filter(element =>
  !element.closest('svg *') && element.checkVisibility() &&
  !element.closest('.md-typeset__scrollwrap, pre, .md-clipboard') &&
  element.getBoundingClientRect().right >
      document.documentElement.clientWidth + 1)
  .map(element => element.tagName + '.' + element.className).slice(0, 5)"""
SCHEME = "document.body.getAttribute('data-md-color-scheme')"
FOUND = "document.querySelectorAll('.md-search-result__item').length"


def check_page(page, site, name, pictures):
    page.resize(WIDTHS[0], HEIGHT)
    page.open((site / name).as_uri())
    for scheme in ("slate", "default"):
        page.evaluate("document.querySelector("
                      f"'input[data-md-color-scheme={scheme}]').click()")
        chromium.until(f"{name} in the scheme {scheme}",
                       lambda: page.evaluate(SCHEME) == scheme)
        for width in WIDTHS:
            page.resize(width, HEIGHT)
            wider = page.evaluate(WIDER)
            assert not wider, f"{name} is wider than {width} pixels: {wider}"
            if pictures:
                file = f"{name.replace('/', '-')}-{width}-{scheme}.png"
                page.take_picture(pathlib.Path(pictures) / file)


def check_search(page, site):
    page.resize(1280, HEIGHT)
    page.open((site / "docs/start.html").as_uri() + "?q=delayed_gradient")
    chromium.until("results of the search", lambda: page.evaluate(FOUND) > 0)


def main(site, pictures=None):
    site = pathlib.Path(site).absolute()
    with chromium.opened("about:blank") as page:
        page.watch_errors()
        for name in PAGES:
            check_page(page, site, name, pictures)
            assert not page.errors, (name, page.errors)
        check_search(page, site)
        assert not page.errors, page.errors
    print(f"{site}: {len(PAGES)} pages read in windows of {WIDTHS} pixels, "
          "and searched")


if __name__ == "__main__":
    main(*sys.argv[1:])
