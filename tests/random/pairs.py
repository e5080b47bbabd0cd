"""A covering array of strength 2 that goes around what the program refuses.

A row grows from a config that the program takes: a pair with what it needs, and
defaults. Then the values of a library's covering array are laid on it, as many
as are taken, and after them those that cover most new pairs. What is refused
beside what is there teaches a pair that can't stand together, which a config of
that pair alone confirms; no row hides another pair behind it.
"""
import collections
import itertools
import re

from factors import UNSAID

TRIES = 3     # of a pair, beside other values
LOOKS = 40    # rows that are read to find those in which a value can stand
CHUNK = 6     # values that are laid on at once
CORE = 12     # keys of the library's array: those with the most values


def library_rows(factors, strength=2):
    """A covering array of the keys with most values, by covertable."""
    from covertable.main import Controller
    core = sorted(factors.values, key=lambda path: -len(factors.values[path]))
    values = {path: [each for each in factors.values[path] if each != UNSAID]
              for path in core[:CORE]}
    return list(Controller(values, strength=strength).make_async())


def items_of(row):
    """The values that are said."""
    return [item for item in row.items() if item[1] != UNSAID]


def pairs_of(row):
    return {frozenset(pair)
            for pair in itertools.combinations(items_of(row), 2)}


def named(row, line):
    """Other keys of the row, those first that the line is likely to mean: by
    path, value or last part."""
    words = set(re.findall(r"[\w-]+", line))

    def likely(item):
        path, value = item
        return (path not in line, str(value) not in words,
                path.split(".")[-1] not in words,
                path.split(".")[0] not in words)
    return sorted(items_of(row), key=likely)


class Search:
    """Runs rows until each pair has run, or was refused."""

    def __init__(self, factors, chance, probe, run):
        """`probe` gives the line for which a row's config is refused, or "";
        `run` gives the outcome and the line of a row that isn't."""
        self.factors = factors
        self.chance = chance
        self.probe = probe
        self.run = run
        self.left = set(factors.pairs())
        self.pairs = len(self.left)
        self.refused = {}  # pair -> line
        self.ran = set()
        self.tries = collections.Counter()
        self.homes = {}  # item -> rows that are taken with it, and a line
        # item -> items that are refused beside it
        self.apart = collections.defaultdict(dict)

    def refuse(self, pair, line):
        self.refused[pair] = line
        self.left.discard(pair)
        one, other = pair
        self.apart[one][other] = self.apart[other][one] = line

    def is_apart(self, row, item):
        return any(other in self.apart[item] for other in row.items())

    def bases_of(self, part):
        """Rows with these values, what they need, and defaults: with each
        model, the first one first."""
        for way in itertools.islice(self.factors.closures(dict(part)), 60):
            models = [way["model.name"]] if "model.name" in way \
                else self.factors.values["model.name"]
            for model in models:
                row = {path: UNSAID for path in self.factors.values}
                row["model.name"] = model
                row.update(way)
                if "data" not in way:
                    row["data"] = self.factors.data_for(model)[0]
                if self.factors.is_consistent(row):
                    yield row

    def homes_of(self, item):
        """A few rows that say the item beside defaults, and are taken; and the
        line for which the last of the others is refused."""
        if item not in self.homes:
            found, line = [], "what it needs is refused"
            for row in itertools.islice(self.bases_of({item[0]: item[1]}),
                                        LOOKS):
                refusal = self.probe(row)
                line = refusal or line
                if not refusal:
                    found.append(row)
                if len(found) == TRIES:
                    break
            self.homes[item] = found, line
        return self.homes[item]

    def first_row(self, pair):
        """A row for the pair that is taken, or None and why there is none: not
        where either of them is taken without the other."""
        one, other = sorted(pair, key=str)
        line = ""
        for item, more in ((one, other), (other, one)):
            homes, refusal = self.homes_of(item)
            if not homes:
                return None, refusal
            for home in homes:
                row = home | {more[0]: more[1]} if home[more[0]] == UNSAID or \
                    more[0] in ("model.name", "data") else home
                row = self.with_needs(row, more)
                if row is None or row[more[0]] != more[1]:
                    continue
                refusal = self.probe(row)
                if not refusal:
                    return row, ""
                line = line or refusal
        for row in itertools.islice(self.bases_of(pair), TRIES):
            refusal = self.probe(row)
            if not refusal:
                return row, ""
            line = line or refusal
        return None, line or "what one of them needs is refused with the other"

    def with_needs(self, row, item):
        """The row with what the item needs added; None: it can't be."""
        if self.factors.is_consistent(row):
            return row
        return self.with_item(row | {item[0]: UNSAID}
                              if item[0] not in ("model.name", "data") else row,
                              item)

    def with_item(self, row, item):
        """The row with one more value, and what that needs; None: it can't
        stand there."""
        for way in itertools.islice(self.factors.closures(
                {item[0]: item[1]}), 40):
            changed = {path: value for path, value in way.items()
                       if row[path] != value}
            if any(row[path] != UNSAID and path != item[0] for path in changed):
                continue
            if any(self.is_apart(row, each) for each in changed.items()):
                continue
            grown = row | changed
            if self.factors.is_consistent(grown):
                return grown
        return None

    def teach(self, row, item):
        """Which value of the row keeps the item out, if one does by itself."""
        for other in named(row, self.line)[:4]:
            pair = frozenset((item, other))
            if other[0] == item[0] or pair not in self.left:
                continue
            taken, line = self.first_row(pair)
            if taken is None:
                self.refuse(pair, line)
                return

    def lay_on(self, row, items):
        """The row with as many of the items as are taken."""
        grown, laid = row, []
        for item in items:
            if grown[item[0]] != UNSAID:
                continue
            more = self.with_item(grown, item)
            if more is not None:
                grown = more
                laid.append(item)
        if not laid:
            return row
        line = self.probe(grown)
        if not line:
            return grown
        if len(laid) == 1:
            self.line = line
            self.teach(row, laid[0])
            return row
        half = len(laid) // 2
        return self.lay_on(self.lay_on(row, laid[:half]), laid[half:])

    def gain(self, row, item):
        return sum(frozenset((item, other)) in self.left
                   for other in items_of(row))

    def best_items(self, row):
        """For each key that isn't said the value with the most new pairs."""
        found = []
        for path, values in self.factors.values.items():
            if row[path] == UNSAID:
                gain, value = max(
                    ((self.gain(row, (path, value)), value)
                     for value in values if value != UNSAID),
                    key=lambda each: each[0])
                if gain:
                    found.append((gain, self.chance.random(), (path, value)))
        return [item for _, _, item in sorted(found, reverse=True)]

    def grow(self, row, wanted=()):
        row = self.lay_on(row, list(wanted))
        for _ in range(3):
            items = self.best_items(row)
            before = row
            for i in range(0, len(items), CHUNK):
                row = self.lay_on(row, items[i:i + CHUNK])
            if row == before:
                break
        return row

    def start(self, pair):
        """A row for the pair that is taken; None: the pair is refused."""
        row, line = self.first_row(pair)
        if row is None:
            self.refuse(pair, line)
        return row

    def rows(self, seeds=()):
        """Rows to be run, each with the pair that it is for."""
        for seed in seeds:
            pairs = sorted(pairs_of(seed) & self.left, key=str)
            if pairs:
                pair = self.chance.choice(pairs)
                row = self.start(pair)
                if row is not None:
                    yield pair, self.grow(row, seed.items())
        while self.left:
            pair = self.chance.choice(sorted(self.left, key=str))
            row = self.start(pair)
            if row is not None:
                # A row that failed isn't grown in the same way again.
                yield pair, row if self.tries[pair] else self.grow(row)

    def step(self, pair, row):
        outcome, line = self.run(row)
        if outcome == "ran":
            covered = pairs_of(row) & self.left
            self.left -= covered
            self.ran |= covered
            return
        self.tries[pair] += 1
        if self.tries[pair] >= TRIES:
            self.refuse(pair, f"{outcome}: {line}")
