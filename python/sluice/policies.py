"""Policies of boundaries that are written in Python (Network.boundaries)."""
import collections
import copy
import functools

from sluice.errors import SluiceError
from sluice.factories import drawing_by_key

Site = collections.namedtuple(
    "Site", "block blocks layer features classes seed")
Site.__doc__ = """The boundary that a policy is made for: above block `block` of
`blocks` (from 1) and layer `layer` of the whole network (from 0). A sample's
features there have the sizes `features`, [C], [C, H, W] or [T, C]."""

# What the extension asks a policy for: its module, or None; one of its methods
# `loss` and `gradient`, the other None; and how it takes gradients from above.
Made = collections.namedtuple("Made", "module loss gradient from_above delay")


def made(factory, site):
    """A policy of a factory for a site, a dict, as the extension takes it."""
    from torch import nn
    policy = (copy.deepcopy(factory) if isinstance(factory, nn.Module)
              else factory(Site(**site)))
    loss, gradient = (getattr(policy, name, None)
                      for name in ("loss", "gradient"))
    kind = type(policy).__name__
    if callable(loss) == callable(gradient):
        raise SluiceError(
            f"a {kind} has {'both' if callable(loss) else 'none'} of loss("
            "features, labels) and gradient(features, labels, from_above): a "
            "policy has one of them")
    from_above = not callable(loss) and bool(getattr(policy, "from_above", True))
    delay = getattr(policy, "delay", 0)
    if type(delay) is not int or delay < 0 or (delay and not from_above):
        raise SluiceError(
            f"{kind}.delay is {delay!r}: it is a number of turns, and 0 where "
            "nothing comes from above")
    module = policy if isinstance(policy, nn.Module) else None
    if module is not None:
        drawing_by_key(module)
    return Made(module, loss if callable(loss) else None,
                gradient if callable(gradient) else None, from_above, delay)


class Policies:
    """Those of one Network, each with a name for its config."""

    def __init__(self):
        self.rows = []  # (name, what the config says, factory)

    def choice(self, said):
        """One of `boundaries`, with a name for a policy that is Python."""
        if isinstance(said, dict) and callable(said.get("policy")):
            return {**said, "policy": self._name(said["policy"])}
        return self._name(said) if callable(said) else said

    def _name(self, factory):
        for name, _, known in self.rows:
            if known is factory:
                return name
        base, names = plain_name(factory), {name for name, _, _ in self.rows}
        name, number = base, 2
        while name in names:
            name, number = f"{base}-{number}", number + 1
        self.rows.append((name, described(factory), factory))
        return name


def functions(rows):
    """The rows as the extension takes them."""
    return [(name, text, functools.partial(made, factory))
            for name, text, factory in rows]


def plain_name(factory):
    while isinstance(factory, functools.partial):
        factory = factory.func
    name = getattr(factory, "__name__", type(factory).__name__)
    return name if name.isidentifier() else "policy"


def described(factory):
    """What a run's config says of it, the same in each process."""
    if isinstance(factory, functools.partial):
        said = [*map(_shown, factory.args),
                *(f"{key}={_shown(value)}"
                  for key, value in factory.keywords.items())]
        return f"{described(factory.func)}({', '.join(said)})"
    named = factory if hasattr(factory, "__qualname__") else type(factory)
    return f"{named.__module__}.{named.__qualname__}"


def _shown(value):
    plain = (bool, int, float, str, type(None))
    return repr(value) if isinstance(value, plain) else type(value).__name__
