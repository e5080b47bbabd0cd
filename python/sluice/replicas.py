"""Replica policies that are written in Python (Network.replicas)."""
import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.errors import SluiceError
from sluice.policies import Policies

if TYPE_CHECKING:
    import torch


class ReplicaSite(NamedTuple):
    """The replica of a block that a policy is made for.

        class Average:
            def __init__(self, site):
                print(site.replica, "of", site.replicas)
            def combine(self, mine, mixture):
                return mixture.mean
    """

    replica: int  # from 1
    replicas: int  # of the block
    seed: int
    weights: dict[str, "torch.Tensor"]  # copies of the replica's, by name


class Mixture(NamedTuple):
    """What a replica has after an exchange, tensors in the order of its weights.

        def combine(self, mine, mixture):
            return [(w + mean) / 2 for w, mean in zip(mine, mixture.mean)]
    """

    mean: list["torch.Tensor"]  # of what all have published; of peers: empty
    # What the replica and its peers on the graph have published, each a list,
    # in the order of the replicas; in an exchange of all: empty.
    published: list[list["torch.Tensor"]]
    own: int  # index of its own in `published`
    parts: int  # how many replicas these are of
    rate: float  # the learning rate of the last update


class Made(NamedTuple):
    """What the extension takes of a policy; None: the policy leaves it out."""

    begin: Callable[..., Any] | None
    offer: Callable[..., Any] | None
    combine: Callable[..., Any]
    consensus: Callable[..., Any] | None
    state: Callable[..., Any] | None


def made(factory: Callable[[ReplicaSite], Any], site: dict[str, Any]) -> Made:
    """A policy of a factory for a site, a dict, as the extension takes it."""
    policy = factory(ReplicaSite(**site))
    methods = {name: getattr(policy, name, None) for name in Made._fields}
    for name, method in methods.items():
        if method is not None and not callable(method):
            raise SluiceError(f"{type(policy).__name__}.{name} is a "
                              f"{type(method).__name__}: it is a method")
    combine = methods.pop("combine")
    if combine is None:
        raise SluiceError(
            f"a {type(policy).__name__} has no combine(mine, mixture), which "
            "gives a replica's weights after an exchange: a replica policy has "
            "one")
    return Made(combine=lambda mine, mixture: combine(mine, Mixture(**mixture)),
                **methods)


def functions(
        rows: Iterable[tuple[str, str, Callable[[ReplicaSite], Any]]]
) -> list[tuple[str, str, Callable[..., Made]]]:
    """The rows as the extension takes them."""
    return [(name, text, functools.partial(made, factory))
            for name, text, factory in rows]


def table(said: Any, policies: Policies) -> dict[str, Any]:
    """[replicas] of a config; a policy that is Python gets a name there."""
    if isinstance(said, int) and not isinstance(said, bool):
        return {"count": said}
    if not isinstance(said, dict):
        raise SluiceError(
            f"replicas: {said!r}: expected a number, or a dict such as "
            "{\"count\": 4, \"policy\": \"average\", \"every\": 50}")
    return policies.choice(said)
