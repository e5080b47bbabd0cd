"""Draws configs: dicts from a key's path to its value."""
import json
import pathlib
import random
import re
import tomllib

HERE = pathlib.Path(__file__).parent
OPTION = 0.12      # chance of an option of a chosen row that no table has
SECOND = 0.35      # chance that a boundary has a policy of its own
PHASE = 0.12       # chance of a timetable
GROUPS = [{"match": ["*.bias"], "lr_scale": 2.0}]


def is_own(path):
    """Whether a boundary may have it for itself."""
    return path.startswith("boundary.") and path != "boundary.codec" \
        and not re.match(r"boundary\.\d", path)


def numbered(path, boundary):
    return path.replace("boundary.", f"boundary.{boundary}.", 1)


def toml_of(value):
    """A value as TOML; tables stand in one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml_of(each)}"
                               for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml_of, value)) + "]"
    return json.dumps(value)


def text_of(config):
    """The config as a file."""
    return "".join(f"{path} = {toml_of(value)}\n"
                   for path, value in config.items())


def typed(text, kind):
    """A choice that the manual writes as text."""
    if kind == "boolean":
        return text == "true"
    if kind in ("integer", "number") or re.fullmatch(r"-?\d+", text):
        return json.loads(text)
    return text


def edges(key):
    """The least value of a number, the one after it, and a small largest."""
    numbers = re.findall(r"-?[\d.]+(?:e[+-]?\d+)?", key.limits)
    if key.type not in ("integer", "number") or not numbers:
        return []
    least = float(numbers[0])
    found = [least, least + 1] if key.type == "integer" else [least]
    if len(numbers) > 1 and float(numbers[1]) <= 4:
        found.append(float(numbers[1]))
    return [int(each) if key.type == "integer" else each for each in found]


class Choices:
    """choices.toml, for a manual. `root` is the folder of the data."""

    def __init__(self, manual, root, file=HERE / "choices.toml"):
        self.manual = manual
        tables = tomllib.loads(file.read_text().replace("ROOT", str(root)))
        self.values_of_keys = tables.pop("values")
        self.__dict__.update(tables)

    def by_prefix(self, table, path):
        """The entry for the longest part that the path begins with."""
        fitting = [each for each in table if path == each
                   or path.startswith(each) and each[-1:] in ("", ".")
                   or path.startswith(each + ".")]
        return table[max(fitting, key=len)] if fitting else None

    def is_left_out(self, path):
        return self.by_prefix(self.left_out, path) is not None

    def rows(self, path):
        """The choices of a key but for those that aren't drawn."""
        gone = self.left_out_values.get(path, [])
        return [each for each in self.manual.choices(path) if each not in gone]

    def values(self, key):
        if key.path in self.values_of_keys:
            return self.values_of_keys[key.path]
        if key.choices:
            gone = self.left_out_values.get(key.path, [])
            return [typed(each, key.type) for each in key.choices
                    if each not in gone]
        return edges(key)

    def sets_for(self, model):
        """Data sets that the model takes; a new model may take any."""
        def takes(flag):
            return model in self.takes[flag]
        return [each for each in self.data
                if each.get("is_text", False) == takes("texts")
                and (takes("rows") or not each.get("is_rows"))]

    def unknown(self):
        """Paths in the tables that the program doesn't have (any more)."""
        known = [key.path for key in self.manual.keys]
        for table in (self.base, self.values_of_keys, self.left_out, self.needs,
                      self.chance):
            for path in table:
                if not any(each == path or each.startswith(path)
                           for each in known):
                    yield path


class Drawn:
    """One config in the making."""

    def __init__(self, choices, chance, device=None):
        self.choices = choices
        self.chance = chance
        self.config = dict(choices.base)
        if device:
            self.config["device"] = device

    def draw(self):
        self.draw_net()
        for key in self.ordered_keys():
            self.draw_key(key)
        self.draw_sources()
        self.draw_boundaries()
        self.draw_groups()
        self.draw_phases()
        self.fit_counts()
        return self.config

    def ordered_keys(self):
        """What others need comes before them."""
        def depth(key):
            needs = self.choices.by_prefix(self.choices.needs, key.path)
            return bool(key.needs) * 2 + bool(needs) * 3 + key.path.count(".")
        return sorted(self.choices.manual.keys, key=depth)

    def draw_net(self):
        models = self.choices.rows("model.name")
        model = self.chance.choice(models)
        sets = self.choices.sets_for(model)
        data = sets[0] if self.chance.random() < 0.5 else self.chance.choice(sets)
        if self.chance.random() < 0.02:
            data = self.chance.choice(self.choices.data)
        self.config.update(net_of(self.choices, model, data))

    def holds(self, needs):
        """Whether one of (path, value) is said."""
        return not needs or any(self.config.get(path) == value
                                for path, value in needs)

    def is_beside(self, path):
        needs = self.choices.by_prefix(self.choices.needs, path) or {}
        return all(other in self.config if values is True
                   else self.config.get(other, "") in values
                   for other, values in needs.items())

    def draw_key(self, key):
        path = key.path
        if (path in self.config and path not in self.choices.base
                or self.choices.is_left_out(path) or "[]" in path
                or not self.holds(key.needs) or not self.is_beside(path)):
            return
        likely = self.choices.by_prefix(self.choices.chance, path)
        if key.needs and likely == self.choices.chance[""]:
            likely = OPTION
        values = self.choices.values(key)
        if values and self.chance.random() < likely:
            self.config[path] = self.chance.choice(values)

    def draw_boundaries(self):
        """Each boundary a policy and options of its own."""
        blocks = self.config.get("blocks")
        if not isinstance(blocks, int) or blocks < 3 \
                or self.chance.random() > SECOND:
            return
        for boundary in range(1, blocks):
            for path in [path for path in self.config if is_own(path)]:
                self.config[numbered(path, boundary)] = self.config.pop(path)
            if boundary + 1 < blocks:
                for key in self.ordered_keys():
                    if is_own(key.path):
                        self.draw_key(key)
                self.draw_sources()

    def draw_sources(self):
        """The policies of a blend."""
        if self.config.get("boundary.policy") == "blend":
            names = [name for name in self.choices.rows("boundary.policy")
                     if name != "blend"]
            self.config["boundary.sources"] = [
                {"policy": self.chance.choice(names), "weight": 0.5}
                for _ in range(self.chance.choice([1, 2, 2]))]

    def draw_groups(self):
        if self.chance.random() < 0.06:
            self.config["optimizer.groups"] = GROUPS

    def fit_counts(self):
        """A list of replicas has a number for each block, and goes with sums."""
        counts, blocks = map(self.config.get, ("replicas.count", "blocks"))
        if isinstance(counts, list) and isinstance(blocks, int) \
                and self.chance.random() < 0.9:
            for path in [path for path in self.config
                         if path.startswith("replicas.")]:
                del self.config[path]
            self.config["replicas.count"] = [
                self.chance.choice([1, 2]) for _ in range(blocks)]

    def draw_phases(self):
        if self.chance.random() < PHASE:
            turn = self.chance.choice([1, 2, 3])
            policy = self.chance.choice(self.choices.rows("boundary.policy"))
            self.config["timetable"] = [
                {"turn": turn, "boundary": {"policy": policy}}]


def net_of(choices, model, data):
    """The keys of a model and of a data set."""
    config = {"model.name": model}
    for name, value in choices.models.get(model, {}).items():
        config[f"model.{name}"] = value
    if model == "torchscript" and "script" in data:
        config["model.file"] = data["script"]
    config["data.name"] = data["name"]
    for name, value in data["keys"].items():
        config[f"data.{name}"] = value
    if "loss" in data:
        config["loss.name"] = data["loss"]
    return config


def drawn(choices, seed, number, device=None):
    """Config `number` of a seed: the same whatever was drawn before."""
    return Drawn(choices, random.Random(f"{seed} {number}"), device).draw()
