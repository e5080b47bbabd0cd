"""Layers that a config lists, [[model.layer]]."""
from sluice.errors import SluiceError
from sluice.models.chain import ACTIVATIONS, Builder

# Layers without options.
PLAIN = {"batch_norm": Builder.norm, "layer_norm": Builder.layer_norm,
         "global_pool": Builder.global_average_pool,
         "flatten": Builder.flatten}


def layers(options, sample):
    builder = Builder(sample["shape"])
    for i, layer in enumerate(options["layer"]):
        if i == 0 or layer["cut"]:
            builder.entry()
        add(builder, layer, sample["classes"])
    return builder.layers


def add(builder, layer, classes):
    kind = layer["type"]
    if kind in ACTIVATIONS:
        builder.activation(kind)
    elif kind == "linear":
        builder.linear(layer["outputs"] or classes)
    elif kind == "conv":
        builder.conv(layer["channels"], layer["size"], layer["stride"],
                     layer["padding"])
    elif kind in ("max_pool", "avg_pool"):
        getattr(builder, kind)(layer["size"], layer["stride"] or layer["size"],
                               layer["padding"])
    elif kind == "embedding":
        builder.embedding(classes, layer["width"])
    elif kind == "dropout":
        builder.dropout(layer["p"], layer["unit"] == "channel")
    elif kind in PLAIN:
        PLAIN[kind](builder)
    else:
        raise SluiceError(f"there is no nn.Module for layers of type {kind}")
