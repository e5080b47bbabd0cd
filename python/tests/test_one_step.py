"""A step of the program's networks (forward, loss, backward, update) beside one
of PyTorch's own modules with the same weights and optimizers.

Nothing of sluice.models is in here: ResNet-50 is the plain one of the examples,
ViT and GPT are made of nn.TransformerEncoderLayer. PyTorch draws the weights,
and the run begins with them.
"""
import pathlib
import re
import sys

import pytest

import sluice
from sluice.program import call
from sluice.safetensors import File

torch = pytest.importorskip("torch")
files = pytest.importorskip("safetensors.torch")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "examples"))
from residual_network import resnet50  # noqa: E402

BATCH, CLASSES, TOLERANCE = 8, 10, 1e-5
WIDTH, HEADS, LAYERS, PATCH = 48, 4, 2, 8
CONTEXT, SUBWORDS = 24, 300
SGD = {"name": "sgd", "lr": 0.05, "momentum": 0.9, "nesterov": True,
       "weight_decay": 5e-4}
# The gradient of a key's bias is 0 but for rounding, which an epsilon of 1e-8
# would make a step of.
ADAMW = {"name": "adamw", "lr": 1e-3, "weight_decay": 0.1, "epsilon": 1e-6}


def transformer_layer(epsilon, activation):
    return nn.TransformerEncoderLayer(
        WIDTH, HEADS, 4 * WIDTH, dropout=0.0, activation=activation,
        layer_norm_eps=epsilon, batch_first=True, norm_first=True)


class Vit(nn.Module):
    def __init__(self, pixels):
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, PATCH, PATCH)
        self.class_token = nn.Parameter(torch.randn(1, WIDTH))
        self.position = nn.Parameter(torch.randn((pixels // PATCH) ** 2 + 1,
                                                 WIDTH))
        self.layers = nn.ModuleList(transformer_layer(1e-6, functional.gelu)
                                    for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH, eps=1e-6)
        self.linear = nn.Linear(WIDTH, CLASSES)

    def forward(self, images):
        tokens = self.patches(images).flatten(2).transpose(1, 2)
        first = self.class_token.repeat(len(images), 1, 1)
        h = torch.cat([first, tokens], 1) + self.position
        for layer in self.layers:
            h = layer(h)
        return self.linear(self.norm(h)[:, 0])


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(SUBWORDS, WIDTH)
        self.position = nn.Embedding(CONTEXT, WIDTH)
        self.layers = nn.ModuleList(
            transformer_layer(1e-5, lambda x: functional.gelu(
                x, approximate="tanh")) for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.vocabulary = nn.Linear(WIDTH, SUBWORDS, bias=False)

    def forward(self, tokens):
        h = self.token(tokens) + self.position(torch.arange(tokens.size(1)))
        later = nn.Transformer.generate_square_subsequent_mask(tokens.size(1))
        for layer in self.layers:
            h = layer(h, src_mask=later, is_causal=True)
        return self.vocabulary(self.norm(h))


# PyTorch's names, as regular expressions, and the program's.
OF_TRANSFORMER = [
    (r"layers\.(\d+)\.self_attn\.in_proj_", "layers.{}.attention.qkv."),
    (r"layers\.(\d+)\.self_attn\.out_proj\.",
     "layers.{}.attention.projection."),
    (r"layers\.(\d+)\.linear1\.", "layers.{}.mlp.hidden."),
    (r"layers\.(\d+)\.linear2\.", "layers.{}.mlp.projection."),
    (r"layers\.(\d+)\.norm", "layers.{}.norm"),
]


def name_in_transformer(name):
    for pattern, ours in OF_TRANSFORMER:
        found = re.match(pattern, name)
        if found:
            return ours.format(int(found[1]) + 1) + name[found.end():]
    is_last = re.match("norm|linear|vocabulary", name)
    return f"layers.{LAYERS + 1 if is_last else 0}.{name}"


def name_in_resnet(name):
    blocks = {"layer1": 1, "layer2": 4, "layer3": 8, "layer4": 14}
    head, _, rest = name.partition(".")
    rest = (name if head not in blocks else rest)
    rest = re.sub(r"downsample\.0", "shortcut", rest)
    rest = re.sub(r"downsample\.1", "shortcut_norm", rest)
    rest = re.sub(r"\bbn", "norm", rest)
    if head == "fc":
        return "layers.17.linear." + name.partition(".")[2]
    if head in blocks:
        number, _, rest = rest.partition(".")
        return f"layers.{blocks[head] + int(number)}.{rest}"
    return "layers.0." + rest.replace("1.", ".", 1)


def well_posed_resnet50():
    """ReLU's gradient jumps at 0: there a rounding, such as that of another
    memory layout, changes a gradient by 1e-4, and a million activations have
    one that is that close. So the norms move most channels well above 0 and
    every fourth well below. And blocks begin close to their shortcut, so that
    gradients don't grow by a factor in each of 50 layers."""
    net = resnet50(CLASSES, width=16)
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            if re.search(r"bn[12]\.bias|downsample\.1\.bias", name):
                parameter.fill_(4)
            if re.search(r"bn[12]\.bias", name):
                parameter[::4] = -4
            if name.endswith("bn3.weight"):
                parameter.fill_(0.2)
            if name.endswith("bn3.bias"):
                parameter.fill_(1)
                parameter[::4] = -50
    return net


def images(pixels):
    """Writes them, and returns the batch and the table [data]."""
    for split in ("train", "test"):
        files.save_file({"inputs": torch.randn(BATCH, 3, pixels, pixels),
                         "targets": torch.randint(CLASSES, (BATCH,))},
                        f"{split}.safetensors")
    written = File("train.safetensors").torch()
    return written["inputs"], written["targets"], {
        "name": "tensors", "root": ".", "train": ["train.safetensors"],
        "test": ["test.safetensors"], "classes": CLASSES}


def subwords():
    """Tokens of 16 bits in files; the batch is known once a config is."""
    for split in ("train", "val"):
        tokens = torch.randint(SUBWORDS, (2 * BATCH * CONTEXT,))
        pathlib.Path(f"{split}.bin").write_bytes(
            tokens.to(torch.int16).numpy().tobytes())
    return None, None, {"name": "tokens", "folder": str(pathlib.Path.cwd()),
                        "context": CONTEXT, "vocabulary": SUBWORDS}


def windows(config):
    """The texts of turn 0, and the tokens that follow each token."""
    pathlib.Path("config.toml").write_text(sluice.config.to_toml(config))
    line = call("data", "order", "config.toml", "--turns", 1)
    starts = [int(word) for word in line.split()[2:]]
    tokens = torch.frombuffer(bytearray(
        pathlib.Path("train.bin").read_bytes()), dtype=torch.int16).long()
    texts = torch.stack([tokens[s:s + CONTEXT + 1] for s in starts])
    return texts[:, :-1], texts[:, 1:]


CASES = {  # module, our names of its tensors, our model, data, optimizer
    "resnet50": (well_posed_resnet50, name_in_resnet,
                 {"name": "resnet50", "stem": 32, "width": 16},
                 lambda: images(16), SGD),
    "vit": (lambda: Vit(32), name_in_transformer,
            {"name": "vit", "patch": PATCH, "layers": LAYERS, "width": WIDTH,
             "heads": HEADS}, lambda: images(32), ADAMW),
    "gpt": (Gpt, name_in_transformer,
            {"name": "gpt", "layers": LAYERS, "width": WIDTH, "heads": HEADS},
            subwords, ADAMW),
}


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def optimizer_of(options, net, rate):
    if options["name"] == "sgd":
        return torch.optim.SGD(
            net.parameters(), rate, momentum=options["momentum"],
            nesterov=True, weight_decay=options["weight_decay"])
    return torch.optim.AdamW(
        net.parameters(), rate, eps=options["epsilon"],
        weight_decay=options["weight_decay"])


def step(net, options, inputs, labels, rate):
    """The loss before it."""
    optimizer = optimizer_of(options, net, rate)
    loss = functional.cross_entropy(net(inputs).flatten(0, -2),
                                    labels.flatten())
    loss.backward()
    optimizer.step()
    return loss.item()


def gaps(ours, theirs):
    """Tensor by tensor, the greatest."""
    assert ours.keys() == theirs.keys()
    return [(ours[name].double() - theirs[name].double()).abs().max().item()
            for name in ours]


class Point:
    """Weights and a batch, drawn by a seed, and a step of the program there."""

    def __init__(self, tiny, case, seed):
        self.make, self.name_of, model, make_data, self.options = CASES[case]
        torch.manual_seed(seed)
        self.before = self.in_our_names(self.make())
        files.save_file(self.before, "before.safetensors")
        inputs, labels, data = make_data()
        config = tiny | {
            "model": model, "data": data, "optimizer": self.options, "turns": 1,
            "batch_size": BATCH, "evaluate_every": 0, "blocks": 2,
            "boundary": {"policy": "backprop"},
            "initial_weights": "before.safetensors"}
        self.batch = windows(config) if inputs is None else (inputs, labels)
        run = sluice.run(config, folder="run", overwrite=True)
        self.after = File(run.export("after.safetensors")).torch()
        [self.loss] = [record["loss"] for record in run.records()
                       if record["kind"] == "train" and "loss" in record]

    def in_our_names(self, net):
        return {self.name_of(name): tensor.detach().clone().contiguous()
                for name, tensor in net.state_dict().items()}

    def gap_to_pytorch(self, rate=None):
        """Between losses, and the greatest between weights or statistics."""
        net = self.make()
        net.load_state_dict({name: self.before[self.name_of(name)]
                             for name in net.state_dict()})
        loss = step(net, self.options, *self.batch, rate or self.options["lr"])
        return abs(self.loss - loss), max(gaps(self.after,
                                               self.in_our_names(net)))


@pytest.mark.parametrize("case", CASES)
def test_a_step_is_that_of_pytorchs_modules(program, tiny, here, case):
    point = Point(tiny, case, seed=1)
    of_loss, of_weights = point.gap_to_pytorch()
    print(f"{case}: losses differ by {of_loss:.1g}, weights by {of_weights:.1g}")
    assert of_loss < TOLERANCE
    assert of_weights < TOLERANCE
    # Every tensor has moved, and not as by a slightly longer step.
    assert min(gaps(point.after, point.before)) > 10 * TOLERANCE
    _, longer = point.gap_to_pytorch(rate=1.1 * point.options["lr"])
    assert longer > TOLERANCE
