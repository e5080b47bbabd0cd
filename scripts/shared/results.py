"""Tables of methods, nets and blocks, from the committed rows of studies.

scripts/results.toml has the tables, and the conclusions, which are kept by hand.
"""
import csv
import json
import math
import re
import statistics

from studies import parts_of_label

# 97.5 % of Student's t, by degrees of freedom.
T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
     2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086)
STUDIES = "experiments/configs/studies"
MIB = 2 ** 20
# Parts of a label that name a method, but for values that say nothing.
NAMING = ("pipeline", "boundary", "correction", "optimizer.correction")
SAYS_NOTHING = ("a turn at a time", "uncorrected")


def half_width(deviation, n):
    """Half of a 95 % interval of a mean; None: n is below 3."""
    return T[n - 2] * deviation / math.sqrt(n) if n >= 3 else None


def number(row, key):
    """None: the row has none."""
    return float(row[key]) if row.get(key) not in (None, "") else None


def mean_of(rows, key):
    values = [number(row, key) for row in rows]
    return (None if not values or None in values else statistics.fmean(values))


def method_of(row, names):
    """The name of a row's method, from the label of its cell."""
    label = row["label"]
    if label in names:
        return names[label]
    if row.get("method_of_study"):
        return row["method_of_study"]
    parts = parts_of_label(label)
    if not parts:  # of a list: the rate comes last
        return label.rsplit(", ", 1)[0]
    if parts.get("pipeline", "").startswith("2BW"):
        parts.pop("boundary", None)
    kept = [value for key, value in parts.items()
            if key in NAMING and value not in SAYS_NOTHING]
    return ", ".join(kept) or "backprop"


def blocks_of(row, default):
    value = row.get("blocks") or default
    if isinstance(value, dict):  # by net
        value = value[row["net"]]
    if isinstance(value, str) and value.startswith("["):
        return len(json.loads(value))
    return int(value)


class Cell:
    """The runs of a method in so many blocks at one rate."""

    def __init__(self, rows, measure):
        self.rows = rows
        self.measure = measure
        if f"{measure}_n" in rows[0]:  # a table of means
            self.by_seed = {}
            self.n = int(rows[0][f"{measure}_n"])
            self.mean = float(rows[0][f"{measure}_mean"])
            self.deviation = float(rows[0][f"{measure}_std"])
        else:
            self.by_seed = {row["seed"]: float(row[measure]) for row in rows}
            self.n = len(self.by_seed)
            self.mean = statistics.fmean(self.by_seed.values())
            self.deviation = (statistics.stdev(self.by_seed.values())
                              if self.n > 1 else 0.0)

    def of(self, key):
        """The mean of a column; None: there is none."""
        value = mean_of(self.rows, key)
        return mean_of(self.rows, f"{key}_mean") if value is None else value

    @property
    def half(self):
        return half_width(self.deviation, self.n)

    def above(self, base, measure):
        """The difference of means to another cell's, or 0 without one."""
        return self.of(measure) - base.of(measure) if base else 0.0

    def minus(self, base):
        """(difference, half of its interval or None, seeds, whether paired)."""
        shared = sorted(set(self.by_seed) & set(base.by_seed))
        if shared:
            each = [self.by_seed[seed] - base.by_seed[seed] for seed in shared]
            half = half_width(statistics.stdev(each), len(each)) \
                if len(each) > 1 else None
            return statistics.fmean(each), half, len(each), True
        n = min(self.n, base.n)
        both = math.hypot(self.deviation / math.sqrt(self.n),
                          base.deviation / math.sqrt(base.n))
        return (self.mean - base.mean, T[n - 2] * both if n >= 3 else None, n,
                False)


class Table:
    """The cells of one table of results.toml, each at its best rate."""

    def __init__(self, root, what):
        self.what = what
        self.measure = what["measure"]
        self.in_percent = self.measure in ("test_accuracy", "test_error")
        runs = {}
        for path in what["rows"]:
            with open(root / STUDIES / what["study"] / path, newline="") as file:
                for row in csv.DictReader(file):
                    if row.get("test_accuracy"):
                        row["test_error"] = 1 - float(row["test_accuracy"])
                    if self.is_wanted(row):
                        runs.setdefault(self.key(row), []).append(row)
        self.cells = self.best(runs)

    def is_wanted(self, row):
        return (row.get("state", "done") == "done" and row.get(self.measure, "x")
                and all((row.get(key) or "") in values
                        for key, values in self.what.get("where", {}).items()))

    def key(self, row):
        what = self.what
        return (method_of(row, what.get("names", {})),
                (row.get("optimizer.name") or what["optimizer"])
                if "optimizer" in what else "",
                int(row["replicas_of_study"]) if what.get("replicas") else 1,
                blocks_of(row, what.get("blocks", 1)),
                ", ".join(row[column] for column in what.get("rates", [])))

    def best(self, runs):
        chosen = self.what.get("choose", self.measure)
        sign = -1 if "accuracy" in chosen else 1
        best = {}
        for (*key, rate), rows in runs.items():
            cell = Cell(rows, self.measure)
            if cell.n < self.what.get("at_least", 1):
                continue
            key, value = tuple(key), sign * cell.of(chosen)
            if key not in best or value < best[key][0]:
                best[key] = value, rate, cell
        base = self.what.get("base", "backprop")
        optimizers = list(dict.fromkeys(key[1] for key in best))
        in_order = sorted(best, key=lambda key: (
            optimizers.index(key[1]), key[2],
            0 if self.what.get("ratio") else key[3], key[0] != base))
        return {key: best[key][1:] for key in in_order}

    def base(self, key):
        """Back-propagation beside a cell; None: that is what the cell has."""
        name = self.what.get("base", "backprop")
        if key[0] == name:
            return None
        likely = [other for other in self.cells
                  if other[:3] == (name, *key[1:3])]
        return min(likely, default=None,
                   key=lambda other: (other[3] != key[3], other[3]))

    def base_of(self, key):
        """The cell of base()."""
        base = self.base(key)
        return None if base is None else self.cells[base][1]

    def one_block(self, key):
        """Back-propagation in as few blocks as there are."""
        name = self.what.get("base", "backprop")
        return min((other for other in self.cells
                    if other[:3] == (name, *key[1:3])), key=lambda o: o[3],
                   default=None)

    def shown(self, value, half=None, sign=""):
        if self.in_percent:
            value, half = 100 * value, half and 100 * half
        digits = 2 if self.in_percent or "seconds" in self.measure else 3
        text = f"{value:{sign}.{digits}f}"
        return text if half is None else f"{text} ± {half:.{digits}f}"

    def columns(self):
        """(head, what it has of a key, a rate and a cell)."""
        what = self.what
        samples = what.get("samples")

        def difference(key, cell):
            base = self.base_of(key)
            if base is None:
                return ""
            value, half, _, paired = cell.minus(base)
            return self.shown(value, half, "+") + ("" if paired else " u")

        def over(key, of_base, of_cell):
            base = self.one_block(key)
            if base is None or not of_cell:
                return ""
            mine = self.cells[base][1].of(of_base)
            return f"{mine / of_cell:.2f}" if mine else ""

        yield "method", lambda key, rate, cell: key[0]
        if "optimizer" in what:
            yield "optimizer", lambda key, rate, cell: key[1]
        if what.get("replicas"):
            yield "R", lambda key, rate, cell: str(key[2])
        else:
            yield "K", lambda key, rate, cell: str(key[3])
        if what.get("rates"):
            yield what.get("rate_name", "rate"), lambda key, rate, cell: rate
        yield what["head"], lambda key, rate, cell: (
            self.shown(cell.mean, cell.half))
        if "published" in what:
            yield "published", lambda key, rate, cell: (
                self.shown(what["published"][key[0]]))
            yield "minus published", lambda key, rate, cell: (
                self.shown(cell.mean - what["published"][key[0]], None, "+"))
        yield "n", lambda key, rate, cell: (
            "one run" if cell.n == 1 else str(cell.n))
        if not what.get("ratio"):
            yield f"minus {what.get('base', 'backprop')}", (
                lambda key, rate, cell: difference(key, cell))
        if what.get("virtual"):
            yield "virtual speed-up", lambda key, rate, cell: over(
                key, what["virtual"], cell.of(what["virtual"]))
        else:
            yield "ideal speed-up", lambda key, rate, cell: over(
                key, "flops", cell.of("sequential_flops"))
        if what.get("cost"):
            yield "TFLOP in all", lambda key, rate, cell: (
                f"{cell.of(what['cost']) / 1e12:.3f}")
        if not what.get("ratio"):
            yield "s", lambda key, rate, cell: short(cell.of("seconds"))
        yield "MiB", lambda key, rate, cell: short(
            cell.of("peak_memory_bytes"), MIB)
        if samples:
            yield "B a sample", lambda key, rate, cell: (
                "" if cell.of("bytes_sent") is None
                else f"{cell.of('bytes_sent') / samples:.0f}")

    def lines(self):
        columns = [(head, [of(key, rate, cell)
                           for key, (rate, cell) in self.cells.items()])
                   for head, of in self.columns()]
        filled = [(head, cells) for head, cells in columns if any(cells)]
        return as_table([head for head, _ in filled],
                        zip(*(cells for _, cells in filled)))


def short(value, unit=1):
    if value is None:
        return ""
    value /= unit
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def as_table(head, rows):
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield re.sub(r" +", " ", "| " + " | ".join(row) + " |")


def overview(tables):
    """Methods by nets and blocks."""
    counts = (1, 2, 4, 8)
    rows = []
    for table in tables:
        if "overview" not in table.what:
            continue
        base = table.what.get("base", "backprop")
        methods = sorted(dict.fromkeys(key[:3] for key in table.cells),
                         key=lambda method: method[0] != base)
        for method in methods:
            cells = {key[3]: cell for key, (_, cell) in table.cells.items()
                     if key[:3] == method}
            n = min(cell.n for cell in cells.values())
            rows.append([table.what["overview"], method[0],
                         *(table.shown(cells[count].mean, cells[count].half)
                           if count in cells else "" for count in counts),
                         "one run" if n == 1 else str(n)])
    return as_table(["net", "method",
                     *(f"K = {count}" for count in counts), "n"], rows)


def table_below(text, line):
    """The head and the rows of the first table below what begins a line."""
    lines = text.split(f"\n{line}", 1)[1].splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("|"))
    cells = []
    for line in lines[first:]:
        if not line.startswith("|"):
            break
        cells.append([cell.strip() for cell in line.strip("|").split("|")])
    return cells[0], cells[2:]


def from_page(root, what):
    """Columns of a table that a page has by hand."""
    head, rows = table_below((root / what["page"]).read_text(), what["heading"])
    columns = [head.index(name) for name in what["columns"]]
    return as_table([*what["columns"], "n"],
                    ([*(row[column] for column in columns), "one run"]
                     for row in rows))


def link_to(study):
    return f"../../{STUDIES}/{study}/README.md"


def spreads(table):
    """Every (value, what may stand after its ±) of a table's cells."""
    factor = 100 if table.in_percent else 1
    for key, (_, cell) in table.cells.items():
        if cell.n < 3:
            continue
        yield factor * cell.mean, factor * cell.deviation
        yield factor * cell.mean, factor * cell.half
        base = table.base_of(key)
        if base is not None:
            value, half, _, _ = cell.minus(base)
            if half is not None:
                yield factor * abs(value), factor * half


def wrong_spreads(root, tables):
    """Each "value ± spread" of README and of studies that their rows don't have."""
    by_page = {"README.md": tables}
    for table in tables:
        path = f"{STUDIES}/{table.what['study']}/README.md"
        by_page.setdefault(path, []).append(table)
    for path, its_tables in by_page.items():
        have = [pair for table in its_tables for pair in spreads(table)]
        text = (root / path).read_text()
        for found in re.findall(r"(\d+\.(\d+)) ± (\d+\.\d+)", text):
            value, digits, spread = found[0], len(found[1]), found[2]
            if not any((f"{a:.{digits}f}", f"{b:.{digits}f}") == (value, spread)
                       for a, b in have):
                yield f"{path}: {value} ± {spread} isn't in its rows"


def wrong_figures(root, what, tables):
    """Each figure in a study's own tables that none of the cells has."""
    for each in what:
        table = next(table for table in tables
                     if table.what["title"] == each["table"])
        factor = 100 if table.in_percent else 1
        have = [factor * value for key, (_, cell) in table.cells.items()
                for measure in each["measures"]
                for value in (cell.of(measure), cell.above(table.base_of(key),
                                                           measure))]
        path = f"{STUDIES}/{table.what['study']}/README.md"
        head, rows = table_below((root / path).read_text(), each["below"])
        for row in rows:
            for name in each.get("columns", head[1:]):
                for figure in re.findall(r"\d+\.\d+", row[head.index(name)]):
                    digits = len(figure.split(".")[1])
                    if figure not in [f"{value:.{digits}f}" for value in have]:
                        yield (f"{path}: {figure} of {row[0]} isn't in the rows "
                               f"of {each['table']}")


def page(root, what, tables):
    lines = [what["head"].strip(), "", "## Methods, nets and blocks", "",
             what["overview"].strip(), "", *overview(tables), "",
             "## What to conclude", ""]
    lines += [f"{i}. {text.strip()}" for i, text in enumerate(what["conclusion"], 1)]
    for each, table in zip(what["table"], tables):
        lines += ["", f"## {each['title']}", "",
                  each["caption"].strip(),
                  f"Study: [{each['study']}]({link_to(each['study'])}); "
                  "command:", "",
                  *(f"    {line}" for line in each["command"].strip().splitlines()),
                  "", *table.lines()]
    for each in what["from_page"]:
        lines += ["", f"## {each['title']}", "", each["caption"].strip(), "",
                  *from_page(root, each)]
    return "\n".join(lines) + "\n"


def complaints(text, what):
    """Figures of the conclusions that no table has, and those without n."""
    if len(what["conclusion"]) > 10:
        yield "scripts/results.toml: more than ten conclusions"
    have = set(re.findall(r"\d+\.\d+", "\n".join(
        line for line in text.splitlines() if line.startswith("|"))))
    for sentence in what["conclusion"]:
        for figure in re.findall(r"\d+\.\d+", re.sub(r"\(http\S+", "", sentence)):
            if figure not in have:
                yield f"scripts/results.toml: {figure} is in no table: {sentence}"
        if not re.search(r"n = \d|one run", sentence):
            yield f"scripts/results.toml: says no n: {sentence}"
