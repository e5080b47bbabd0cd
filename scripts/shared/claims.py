"""Results that pages claim, and whether they say how many runs carry them."""
import re

STUDIES = "experiments/configs/studies"
PAGES = ("README.md", "docs/speed.md", "docs/start.md", "docs/results/*.md",
         "experiments/configs/cards/README.md", f"{STUDIES}/*/README.md")

# A result is a figure beside a word that says what was measured.
FIGURE = re.compile(r"\d\.\d|\d ?%|\d times|\d points?\b|\d (?:MiB|GiB)\b|\d s\b")
MEASURED = re.compile(
    r"\b(?:accura\w+|loss(?:es)?|nats|errors?|cosine|(?:as )?fast(?:er|est)?|slow(?:er|est)?"
    r"|speed|speed-ups?|samples/s|times|better|worse|best|cheapest|cheaper|sooner"
    r"|costs?|level|ahead|behind|gaps?|points|memory|seconds|passed|bytes)\b", re.I)
COUNT = r"(?:one|two|three|four|five|seven|eleven|\d+)"
# What says how far a result carries.
EVIDENCE = re.compile(
    rf"\bn [=≥] \d|±|\b95 %|\bquartiles?\b|\binterval of\b|\bone of each\b"
    rf"|\b{COUNT} (?:or {COUNT} |to {COUNT} )?(?:runs?|seeds?|rounds?|sweeps?)\b"
    r"|\beach round\b|\bseed 1\b", re.I)


def blocks_of(text):
    """(line, kind, text) of paragraphs, items of lists and tables, without code."""
    block, begin, kind, fenced = [], 0, "", False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if re.match(r"\s*```", line):
            fenced, line = not fenced, ""
        if fenced or line.startswith(("    ", "#")):
            line = ""
        starts = "table" if line.startswith("|") else "text"
        is_item = re.match(r"\s*([-*]|\d+\.) ", line)
        if block and (not line.strip() or is_item or starts != kind):
            yield begin, kind, "\n".join(block)
            block = []
        if line.strip():
            if not block:
                begin, kind = number, starts
            block.append(line)


def plain(text):
    """Without code, numbers of papers, and where links lead."""
    text = re.sub(r"arXiv:[\d.]+", "", re.sub(r"`[^`]*`", "code", text))
    return re.sub(r"\]\([^)]*\)", "]", text)


def claims_a_result(block, said):
    return bool(FIGURE.search(plain(block)) and MEASURED.search(plain(said)))


def unproved(text):
    """(line, text) of blocks that claim a result and don't say how far it
    carries. A table's caption is the paragraph above it, or above the table that
    stands there."""
    caption = ""
    for line, kind, block in blocks_of(text):
        if kind == "text":
            caption = block
        said = block if kind == "text" else f"{caption}\n{block}"
        if claims_a_result(block, said) and not EVIDENCE.search(plain(said)):
            yield line, block


def without_evidence(root, exceptions):
    """Complaints about pages, and about exceptions that nothing needs."""
    used = set()
    for pattern in PAGES:
        for path in sorted(root.glob(pattern)):
            page = str(path.relative_to(root))
            for line, block in unproved(path.read_text()):
                fits = [i for i, each in enumerate(exceptions)
                        if each["page"] == page and each["text"] in block]
                used.update(fits)
                if not fits:
                    yield (f"{page}:{line}: claims a result without n, an interval "
                           f'or "one run": {block[:90]}')
    for i, each in enumerate(exceptions):
        if i not in used:
            yield (f"scripts/results.toml: no exception is needed: {each['page']}: "
                   f"{each['text']}")

