"""Modules of factories, as the extension asks for them."""
from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from sluice.errors import SluiceError

if TYPE_CHECKING:
    from torch import nn


def made(factory: nn.Module | Callable[[], nn.Module]) -> nn.Module:
    """A new module of a factory, or a copy of a module."""
    from torch import nn
    module = (copy.deepcopy(factory) if isinstance(factory, nn.Module)
              else factory())
    if not isinstance(module, nn.Module):
        raise SluiceError(f"{factory!r} gives a {type(module).__name__}: a "
                          "layer's factory returns an nn.Module")
    return module


def drawing_by_key(module: nn.Module) -> nn.Module:
    """The module; its dropouts draw as Sluice's do: by seed, layer and batch,
    so that numbers depend neither on the cut nor on the engine."""
    import torch
    from torch import nn
    draws = {nn.Dropout: torch.ops.sluice.dropout,
             **dict.fromkeys((nn.Dropout1d, nn.Dropout2d, nn.Dropout3d),
                             torch.ops.sluice.feature_dropout)}
    for part in module.modules():
        if type(part) in draws:
            part.forward = _drawing(draws[type(part)], part)
    return module


def _drawing(operation: Callable[..., Any],
             part: Any) -> Callable[[Any], Any]:
    def forward(inputs: Any) -> Any:
        return operation(inputs, part.p, part.training)

    return forward


def layer_functions(
        factories: Iterable[nn.Module | Callable[[], nn.Module]]
) -> list[Callable[[], nn.Module]]:
    """What the extension calls for a layer."""
    return [functools.partial(_layer, each) for each in factories]


def _layer(factory: nn.Module | Callable[[], nn.Module]) -> nn.Module:
    return drawing_by_key(made(factory))
