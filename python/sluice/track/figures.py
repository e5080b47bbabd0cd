"""What a record says to a tracker."""
import math

PLACES = ("kind", "turn", "block", "replica", "layer", "batch", "epoch", "phase",
          "time")


def figures_of(record):
    """Names, "block1/loss" or "evaluation/accuracy", and finite numbers: those
    that TensorBoard is given. Empty for a record without a turn."""
    if "turn" not in record:
        return {}
    owner = (f"block{record['block']}" if "block" in record
             else record["kind"])
    if "layer" in record:
        owner += f"/layer{record['layer']}"
    return {f"{owner}/{name}": value for name, value in record.items()
            if name not in PLACES and is_figure(value)}


def is_figure(value):
    return (isinstance(value, (int, float)) and not isinstance(value, bool)
            and math.isfinite(value))


def flat(config, prefix=""):
    """{"optimizer": {"lr": 0.1}} as {"optimizer.lr": 0.1}."""
    result = {}
    for key, value in config.items():
        if isinstance(value, dict):
            result |= flat(value, f"{prefix}{key}.")
        else:
            result[prefix + key] = value
    return result
