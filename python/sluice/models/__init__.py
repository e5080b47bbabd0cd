"""Models of the program as nn.Modules.

Layers, names and the order of the operations are those of the program's own
models, so that an exported file's tensors are a state_dict, and logits have the
same bits. What the program draws by keys (the masks of a dropout) is drawn by
torch's generator here.
"""
import json
import tomllib
import warnings

from sluice.errors import SluiceError, need

need("torch", "model()")
import torch  # noqa: E402
from torch import nn  # noqa: E402

from sluice.models import (  # noqa: E402
    convolutional, fully_connected, language, listed,
    residual, scripted, tokens)

# What the metadata `model` and `sample` of an export make of a name.
MODELS = {
    "mlp": fully_connected.mlp,
    "ff_mlp": fully_connected.ff_mlp,
    "conv3": convolutional.conv3,
    "small_conv": convolutional.small_conv,
    "vgg8b": convolutional.vgg8b,
    "vgg11b": convolutional.vgg11b,
    "resnet": residual.resnet,
    "resnet20": residual.resnet_of_depth(20),
    "resnet32": residual.resnet_of_depth(32),
    "resnet56": residual.resnet_of_depth(56),
    "resnet110": residual.resnet_of_depth(110),
    "resnet18": residual.deep_resnet("resnet18"),
    "resnet34": residual.deep_resnet("resnet34"),
    "resnet50": residual.deep_resnet("resnet50"),
    "revnet": residual.revnet,
    "vit": tokens.vit,
    "mlp_mixer": tokens.mlp_mixer,
    "gpt": language.gpt,
    "llama": language.llama,
    "lstm": language.lstm,
    "layers": listed.layers,
    "torchscript": scripted.torchscript,
}


class Model(nn.Module):
    """Layers one after another; `layers[i]` is layer i of the uncut model.

    [N, C, H, W], [N, C] or texts [N, T] -> logits [N, classes], of texts
    [N, T, classes]. Images are laid out as in the run, on which the bits of a
    convolution depend.
    """

    def __init__(self, layers, sample_shape, channels_last, bf16=False):
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.sample_shape = tuple(sample_shape)  # [C, H, W], [C] or [T]
        self._channels_last = channels_last
        self._bf16 = bf16
        if channels_last:
            for parameter in self.parameters():
                parameter.data = self._laid_out(parameter.data)

    def forward(self, x):
        x = self._laid_out(x)
        if not self._bf16:
            return self._through(x)
        with torch.autocast(x.device.type, torch.bfloat16):
            return self._through(x)

    def _through(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

    def _laid_out(self, x):
        if x.dim() != 4 or not self._channels_last:
            return x
        return x.contiguous(memory_format=torch.channels_last)


def make_model(options, sample, channels_last=True, bf16=False):
    """A model with torch's initial weights.

    options: the resolved table [model] of a config. sample: {"shape": that of a
    sample, "classes": their number}.
    """
    name = options["name"]
    if name not in MODELS:
        raise SluiceError(f"there is no nn.Module for the model {name}; there "
                          f"are: {', '.join(sorted(MODELS))}")
    return Model(MODELS[name](options, sample), sample["shape"], channels_last,
                 bf16)


def model_of(file):
    """The model that an exported file describes, with its weights."""
    try:
        options = json.loads(file.notes["model"])
        sample = json.loads(file.notes["sample"])
        config = tomllib.loads(file.notes["config"])
    except (KeyError, ValueError):
        raise SluiceError(f"{file.path}: says nothing of its model: it is none "
                          "of `sluice export`") from None
    warn_of_codecs(config)
    model = make_model(options, sample,
                       config.get("memory_format") == "channels_last",
                       config.get("precision") == "bf16")
    load(model, file, is_scripted=options["name"] == "torchscript")
    return model.eval()


def load(model, file, is_scripted=False):
    """Copies by name, into the memory order that the model has. Of a script,
    what its forward doesn't use isn't trained, and so in no file."""
    own, given = model.state_dict(), file.torch()
    if any(".cut_encoder." in name for name in given):
        raise SluiceError(f"{file.path}: was trained with the codec low_rank, "
                          "whose layers this nn.Module lacks: use `sluice "
                          "eval`, or the tensors by themselves")
    if is_scripted:
        given = scripted.as_one_layer(given)
        own = {name: tensor for name, tensor in own.items() if name in given}
    if own.keys() != given.keys():
        lacking = sorted(own.keys() - given.keys())
        unknown = sorted(given.keys() - own.keys())
        raise SluiceError(f"{file.path}: is of another model: "
                          f"it lacks {lacking}, and has {unknown} besides")
    with torch.no_grad():
        for name, tensor in own.items():
            if tensor.shape != given[name].shape:
                raise SluiceError(
                    f"{file.path}: {name} has the shape "
                    f"{tuple(given[name].shape)}, not {tuple(tensor.shape)}")
            tensor.copy_(given[name])


def codec_of_activations(written):
    """The codec that an evaluation goes through: delta and codebook send it as
    it is, low_rank's layers are the model's."""
    while isinstance(written, dict):
        if written.get("exact_evaluations"):
            return "none"
        if written.get("name") == "low_rank":
            written = written["code"]
        else:
            written = written.get("up", written.get("name", "none"))
    return "none" if written in ("delta", "codebook", "low_rank") else written


def warn_of_codecs(config):
    boundaries = config.get("boundary", {})
    used = {codec_of_activations(boundary.get("codec", "none"))
            for boundary in [boundaries, *boundaries.values()]
            if isinstance(boundary, dict)} - {"none"}
    if used:
        warnings.warn(
            f"the run sent activations by the codec {', '.join(sorted(used))}, "
            "which `sluice eval` applies and this nn.Module doesn't: logits "
            "differ", stacklevel=3)
