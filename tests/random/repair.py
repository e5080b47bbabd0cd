"""Takes out of a config what it was refused for, so that the rest is tried."""
import re


def key_of_all(path):
    """boundary.policy of boundary.2.policy."""
    return re.sub(r"^(boundary|optimizer)\.\w*\d\.", r"\1.", path)


def is_fixed(choices, path):
    """Whether a config can't do without it."""
    return path in choices.base or path.split(".")[0] in ("data", "model") \
        and choices.is_left_out(path) or path == "device"


def named(config, line):
    """The keys that the line is likely to mean, the most likely first."""
    words = set(re.findall(r"[\w.-]+", line.replace(": ", " ")))
    whole = [path for path in config
             if re.search(rf"(^|[ '\"]){re.escape(path)}($|[ :='\"])", line)]
    tables = [path for path in config
              if path.startswith(tuple(
                  word + "." for word in words if "." in word))
              or f" {path.split('.')[0]}:" in line]
    by_value = [path for path, value in config.items()
                if isinstance(value, str) and value in words]
    by_name = [path for path in config if path.split(".")[-1] in words]
    return list(dict.fromkeys(whole + by_value + by_name + tables))


def fits(choices, config, path):
    """Whether the choice that brings the key is said, for its own boundary."""
    own = re.match(r"boundary\.\w*\d\.", path)

    def holds(needed, value):
        if own:
            needed = needed.replace("boundary.", own[0], 1)
        return config.get(needed) == value
    keys = choices.manual.find(key_of_all(path))
    return not keys or any(
        not key.needs or any(holds(*need) for need in key.needs)
        for key in keys)


def without(choices, config, path):
    """The config without a key, and without those that came with it."""
    left = {key: value for key, value in config.items() if key != path}
    while True:
        gone = [each for each in left if each not in choices.base
                and not (fits(choices, left, each) and
                         is_beside(choices, left, each))]
        if not gone:
            return left
        for each in gone:
            del left[each]


def is_beside(choices, config, path):
    needs = choices.by_prefix(choices.needs, path) or {}
    return all(other in config if values is True
               else config.get(other, "") in values
               for other, values in needs.items())


def repaired(choices, config, line):
    """The config without the first key that the line names; None: it names
    none that can go."""
    for path in named(config, line):
        if not is_fixed(choices, path):
            return without(choices, config, path)
    return None
