#!/usr/bin/env python3
"""Reads a report as a browser and as a researcher would.

usage: check_report.py PAGE

Fails unless PAGE is well-formed XML and HTML and asks for no other file. Prints
what the tests look at, a line each: "row CLASS TEXT" for the rows of the table of
results, "section ID", "text TEXT" for chart titles and items of lists, "picture
WIDTHxHEIGHT" for PNG files within the page. A link leads to a place in the page,
which must be there.
"""
import base64
import html.parser
import struct
import sys
import xml.etree.ElementTree


def text_of(element):
    return " ".join("".join(element.itertext()).split())


class Strict(html.parser.HTMLParser):
    """Every tag is closed, in order."""

    VOID = {"meta", "wbr", "br", "hr", "img", "input", "link"}

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open = []

    def handle_starttag(self, tag, attributes):
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            sys.exit(f"</{tag}> at {self.getpos()} closes nothing")


def picture_in(uri):
    """The size in pixels of a PNG that is all in its URI."""
    before = "data:image/png;base64,"
    if not uri.startswith(before):
        sys.exit(f"the page asks for the picture {uri[:80]}")
    png = base64.b64decode(uri[len(before):], validate=True)
    if png[:8] != b"\x89PNG\r\n\x1a\n" or png[-8:-4] != b"IEND":
        sys.exit("a picture is no whole PNG")
    return "{}x{}".format(*struct.unpack(">II", png[16:24]))


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        text = file.read()
    strict = Strict()
    strict.feed(text)
    if strict.open:
        sys.exit(f"never closed: {strict.open}")
    root = xml.etree.ElementTree.fromstring(text)
    for element in root.iter():
        if element.tag in ("link", "iframe", "object"):
            sys.exit(f"the page has a <{element.tag}>")
        if element.tag == "script":
            for word in ("fetch(", "import", "XMLHttpRequest", "eval("):
                if word in element.text:
                    sys.exit(f"the script has {word}")
        for name in ("src", "href"):
            target = element.get(name)
            if element.tag == "img" and name == "src":
                print("picture", picture_in(target or ""))
            elif target is not None and not target.startswith("#"):
                sys.exit(f"the page asks for {target}")
        if element.tag == "style" and ("url(" in element.text
                                       or "@import" in element.text):
            sys.exit("the style asks for other files")
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    if len(ids) != len(set(ids)):
        sys.exit("an id is there twice")
    for link in root.iter("a"):
        if link.get("href")[1:] not in ids:
            sys.exit(f"{link.get('href')} leads nowhere")
    for section in root.iter("section"):
        print("section", section.get("id"))
        if section.get("id") == "results":
            for row in section.iter("tr"):
                print("row", row.get("class", "-"),
                      " | ".join(text_of(cell) for cell in row))
    for element in root.iter():
        if "chart-title" in element.get("class", "") or element.tag == "li":
            print("text", text_of(element))


if __name__ == "__main__":
    main()
