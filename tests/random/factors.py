"""Keys that choose from a list, as factors of a covering array.

A row is a dict from each factor to a value; UNSAID is a key that the config
doesn't say.
"""
import itertools

from draw import net_of, typed

UNSAID = "-"


class Factors:
    """The factors of a program's manual, and which values go together."""

    def __init__(self, choices, devices=("cpu",)):
        self.choices = choices
        self.values = {}
        self.needs = {}  # (path, value) -> one of these lists of (path, values)
        for key in choices.manual.keys:
            if key.type != "boolean" and key.choices and \
                    "[]" not in key.path and self.is_wanted(key.path):
                self.add(key)
        for path, values in choices.pairs["also"].items():
            self.values[path] = list(values)
        self.values["model.name"] = choices.rows("model.name")
        self.values["data"] = list(range(len(choices.data)))
        if len(devices) > 1:
            self.values["device"] = [UNSAID, *devices]
        self.add_texts()
        self.add_tables()

    def is_wanted(self, path):
        return not self.choices.is_left_out(path) and not any(
            path.startswith(each) for each in self.choices.pairs["left_out"])

    def add(self, key):
        values = self.values.setdefault(
            key.path, [UNSAID])
        gone = self.choices.left_out_values.get(key.path, [])
        for text in key.choices:
            value = typed(text, key.type)
            if value not in values and value not in gone:
                values.append(value)
            if key.needs:
                self.needs.setdefault((key.path, value), []).extend(
                    [[(path, [wanted])] for path, wanted in key.needs])

    def add_texts(self):
        """Which models take which data: the program refuses others, but too
        many rows would be lost to that."""
        for model in self.values["model.name"]:
            sets = [i for i, each in enumerate(self.choices.data)
                    if each in self.choices.sets_for(model)]
            self.needs[("model.name", model)] = [[("data", sets)]]

    def data_for(self, model):
        return self.needs[("model.name", model)][0][0][1]

    def add_tables(self):
        """What choices.toml says of keys that need others."""
        for path in self.values:
            beside = self.choices.by_prefix(self.choices.needs, path) or {}
            for value in self.values[path]:
                if value == UNSAID or not beside:
                    continue
                every = [(other, self.wanted(other, allowed))
                         for other, allowed in beside.items()
                         if other in self.values]
                old = self.needs.get((path, value), [[]])
                self.needs[(path, value)] = [each + every for each in old]

    def wanted(self, path, allowed):
        if allowed is True:
            return [each for each in self.values[path] if each != UNSAID]
        return [UNSAID if each == "" else each for each in allowed]

    def ways_of(self, path, value):
        """The lists of needs of which one must hold; none: no needs."""
        return [[(other, values) for other, values in way
                 if other in self.values]
                for way in self.needs.get((path, value), [])]

    def holds(self, row, path):
        """Whether what row[path] needs is there."""
        ways = self.ways_of(path, row[path])
        return not ways or any(all(row.get(other) in values
                                   for other, values in way) for way in ways)

    def is_consistent(self, row):
        return all(self.holds(row, path) for path in row)

    def closures(self, row):
        """All ways to add to some values what they need."""
        for path, value in row.items():
            ways = self.ways_of(path, value)
            if not ways or any(all(row.get(other) in values
                                   for other, values in way) for way in ways):
                continue
            for way in ways:
                if any(other in row and row[other] not in values
                       for other, values in way):
                    continue
                missing = [(other, values) for other, values in way
                           if other not in row]
                for chosen in itertools.product(
                        *(values for _, values in missing)):
                    added = dict(zip((other for other, _ in missing), chosen))
                    yield from self.closures(row | added)
            return
        yield row

    def pairs(self):
        """All pairs of values, of keys that are said, that can stand together
        by what the manual says."""
        for (one, mine), (other, theirs) in itertools.combinations(
                self.values.items(), 2):
            for left, right in itertools.product(mine, theirs):
                if UNSAID in (left, right):
                    continue
                pair = {one: left, other: right}
                if next(self.closures(pair), None) is not None:
                    yield frozenset(pair.items())

    def config(self, row):
        """The config that a row stands for."""
        config = dict(self.choices.base) | net_of(
            self.choices, row["model.name"],
            self.choices.data[row["data"]]) | self.choices.pairs["base"]
        for path, value in row.items():
            if value != UNSAID and path not in ("model.name", "data"):
                config[path] = value
        return config
