"""Policies of boundaries that are written in Python (Network.boundaries)."""
import copy
import functools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from sluice.errors import SluiceError
from sluice.factories import drawing_by_key


class Site(NamedTuple):
    """The boundary that a policy is made for.

        class Classifier(nn.Module):
            def __init__(self, site):
                super().__init__()
                self.linear = nn.Linear(*site.features, site.classes)
    """

    block: int  # the block below the boundary, from 1
    blocks: int  # of the network
    layer: int  # the layer below the boundary in the whole network, from 0
    features: list[int]  # sizes of a sample there: [C], [C, H, W] or [T, C]
    classes: int
    seed: int


class Made(NamedTuple):
    """What the extension takes of a policy."""

    module: Any  # the policy, where it is an nn.Module, or else None
    loss: Callable[..., Any] | None
    gradient: Callable[..., Any] | None
    from_above: bool  # whether the block above sends gradients
    delay: int  # turns by which these are late



def made(factory: Callable[[Site], Any], site: dict[str, Any]) -> Made:
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
    """Python policies of one Network, of boundaries or of replicas, each with a
    name for its config."""

    def __init__(self) -> None:
        # (name, what the config says, factory)
        self.rows: list[tuple[str, str, Callable[[Any], Any]]] = []

    def choice(self, said: Any) -> Any:
        """A boundary, or [replicas], with a name for a policy that is Python."""
        if isinstance(said, dict) and callable(said.get("policy")):
            return {**said, "policy": self._name(said["policy"])}
        return self._name(said) if callable(said) else said

    def _name(self, factory: Callable[[Site], Any]) -> str:
        for name, _, known in self.rows:
            if known is factory:
                return name
        base, names = plain_name(factory), {name for name, _, _ in self.rows}
        name, number = base, 2
        while name in names:
            name, number = f"{base}-{number}", number + 1
        self.rows.append((name, described(factory), factory))
        return name


def functions(
        rows: Iterable[tuple[str, str, Callable[[Site], Any]]]
) -> list[tuple[str, str, Callable[..., Made]]]:
    """The rows as the extension takes them."""
    return [(name, text, functools.partial(made, factory))
            for name, text, factory in rows]


def plain_name(factory: Any) -> str:
    while isinstance(factory, functools.partial):
        factory = factory.func
    name = getattr(factory, "__name__", type(factory).__name__)
    return name if name.isidentifier() else "policy"


def described(factory: Any) -> str:
    """What a run's config says of it, the same in each process."""
    if isinstance(factory, functools.partial):
        said = [*map(_shown, factory.args),
                *(f"{key}={_shown(value)}"
                  for key, value in factory.keywords.items())]
        return f"{described(factory.func)}({', '.join(said)})"
    named = factory if hasattr(factory, "__qualname__") else type(factory)
    return f"{named.__module__}.{named.__qualname__}"


def _shown(value: object) -> str:
    plain = (bool, int, float, str, type(None))
    return repr(value) if isinstance(value, plain) else type(value).__name__
