#!/usr/bin/env python3
"""Seconds of wall-clock time until a net has learned: to 98 % of MNIST's test
images (MLP, 3 x 1024, BatchNorm) and 60 % of CIFAR-10's (three 3x3 convolutions
of 128, 32 and 256 with BatchNorm), Adam; by plain PyTorch, by PyTorch with its
malloc, memory format and optimizer tuned, and by `sluice run` with one block
and with two (local losses), all on two cores. The test images are evaluated
after each epoch, and that time counts. One table, as Markdown.

usage: time_to_accuracy.py [--build DIR] [--data DIR] [--threads N] [NET...]

--data: the folder of MNIST and CIFAR-10 (default: $SLUICE_DATA).
Runs with a Python that has torch. A case ends after 12 epochs (mlp) or 4 (conv)
at the latest, whether it got there or not.
"""
import argparse
import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
NETS = {  # accuracy, epochs, batch size, learning rate
    "mlp": (0.98, 12, 128, 5e-4),
    "conv": (0.60, 4, 64, 1e-3),
}
CONFIG = {
    "mlp": """
data = {name = "mnist"}
model = {name = "mlp", hidden = [1024, 1024, 1024], batch_norm = true}
""",
    "conv": """
data = {name = "cifar10"}
model = {name = "small_conv", channels = [128, 32, 256], hidden = 0, batch_norm = true}
""",
}
TWO_BLOCKS = {"mlp": ("['0-1', '2-']", "predsim"),
              "conv": ("['0', '1-']", "predsim")}


def bytes_of(path):
    if path.exists():
        return path.read_bytes()
    with gzip.open(f"{path}.gz") as file:
        return file.read()


def load(net, folder):
    """Training and test images, normalised, and labels."""
    import torch

    def tensor(data, skip):
        return torch.frombuffer(bytearray(data[skip:]), dtype=torch.uint8)

    splits = []
    if net == "mlp":
        for split in ("train", "t10k"):
            stem = str(folder / "mnist" / split)
            images = tensor(bytes_of(pathlib.Path(
                f"{stem}-images-idx3-ubyte")), 16).view(-1, 1, 28, 28)
            labels = tensor(bytes_of(pathlib.Path(
                f"{stem}-labels-idx1-ubyte")), 8)
            splits.append((images, labels))
    else:
        root = folder / "cifar-10-batches-bin"
        for names in ([f"data_batch_{i}.bin" for i in range(1, 6)],
                      ["test_batch.bin"]):
            records = torch.cat([tensor(bytes_of(root / name), 0)
                                 for name in names]).view(-1, 3073)
            splits.append((records[:, 1:].reshape(-1, 3, 32, 32),
                           records[:, 0]))
    train = splits[0][0].float() / 255
    mean = train.mean((0, 2, 3), keepdim=True)
    deviation = train.std((0, 2, 3), keepdim=True)
    return [((images.float() / 255 - mean) / deviation, labels.long())
            for images, labels in splits]


def make(net):
    from torch import nn
    layers = []
    if net == "mlp":
        layers.append(nn.Flatten())
        for inputs in (784, 1024, 1024):
            layers += [nn.Linear(inputs, 1024), nn.BatchNorm1d(1024),
                       nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(1024, 10))
    for inputs, outputs in ((3, 128), (128, 32), (32, 256)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1),
                   nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(4096, 10))


def train_pytorch(net, tuned, folder, threads):
    """Prints seconds and accuracy."""
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    goal, epochs, batch, rate = NETS[net]
    (images, labels), (test_images, test_labels) = load(net, folder)
    model = make(net)
    if tuned:
        sys.path.insert(0, str(HERE))
        sys.dont_write_bytecode = True
        import handoff_rival
        handoff_rival.keep_memory()
        if net == "conv":
            layout = torch.channels_last
            model = model.to(memory_format=layout)
            images = images.contiguous(memory_format=layout)
            test_images = test_images.contiguous(memory_format=layout)
    optimizer = torch.optim.Adam(model.parameters(), rate,
                                 **({"fused": True} if tuned else {}))
    start = time.monotonic()
    accuracy = 0.0
    for _ in range(epochs):
        model.train()
        order = torch.randperm(len(images))
        for chosen in order.split(batch):
            optimizer.zero_grad()
            F.cross_entropy(model(images[chosen]), labels[chosen]).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            right = sum((model(x).argmax(1) == y).sum().item() for x, y in
                        zip(test_images.split(500), test_labels.split(500)))
        accuracy = right / len(test_labels)
        if accuracy >= goal:
            break
    print(time.monotonic() - start, accuracy)


def pytorch(net, tuned, asked):
    """In a process of its own, which shares no caches."""
    done = subprocess.run(
        [sys.executable, __file__, "--data", asked.data, "--threads",
         str(asked.threads), "--pytorch", "tuned" if tuned else "plain", net],
        capture_output=True, text=True, check=True)
    return tuple(map(float, done.stdout.split()))


def sluice(net, overrides, asked):
    """From the start of training, as the run's records have it, to the first
    evaluation that is good enough; there it is stopped."""
    goal, epochs, batch, rate = NETS[net]
    with tempfile.TemporaryDirectory(prefix="sluice-time-") as root:
        config = pathlib.Path(root) / "case.toml"
        config.write_text(CONFIG[net])
        run = pathlib.Path(root) / "run"
        process = subprocess.Popen(
            [asked.build / "sluice", "run", config, "--dir", run,
             f"batch_size={batch}", f"epochs={epochs}", "optimizer.name=adam",
             f"optimizer.lr={rate}", "evaluate_every=1", "log_every=100",
             *overrides], env=os.environ | {"SLUICE_DATA": asked.data},
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        found = (float("nan"), 0.0)
        while process.poll() is None or found[1] == 0:
            time.sleep(0.2)
            ended = process.poll() is not None
            lines = ((run / "metrics.jsonl").read_text().split("\n")[:-1]
                     if (run / "metrics.jsonl").exists() else [])
            for record in map(json.loads, lines):
                if record["kind"] == "evaluation" and found[1] < goal:
                    found = (record["time"], record["accuracy"])
            if found[1] >= goal and not ended:
                process.terminate()
            if ended:
                break
        errors = process.communicate()[1]
        if found[1] == 0:
            sys.exit(f"sluice run failed: {errors}")
        return found


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path,
                        default=HERE.parent.parent / "build" / "release")
    parser.add_argument("--data", default=os.environ.get("SLUICE_DATA", ""))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--pytorch", help=argparse.SUPPRESS)
    parser.add_argument("nets", nargs="*")
    asked = parser.parse_args()
    if not asked.data:
        parser.error("--data or SLUICE_DATA must name the folder of the data")
    if asked.pytorch:
        train_pytorch(asked.nets[0], asked.pytorch == "tuned",
                      pathlib.Path(asked.data), asked.threads)
        return
    asked.build = asked.build.resolve()
    print("| net, goal | trained by | seconds | accuracy there |\n|---|---|---|---|")
    for net in asked.nets or NETS:
        cut, head = TWO_BLOCKS[net]
        cases = {
            "plain PyTorch": lambda: pytorch(net, False, asked),
            "tuned PyTorch": lambda: pytorch(net, True, asked),
            "Sluice, 1 block": lambda: sluice(
                net, ["blocks=1", "engine=virtual",
                      f"threads={asked.threads}"], asked),
            "Sluice, 2 blocks, local losses": lambda: sluice(
                net, [f"blocks={cut}", "engine=processes", "threads=1",
                      "transport=shared_memory", "boundary.policy=local_loss",
                      f"boundary.head.name={head}"], asked),
        }
        for name, measure in cases.items():
            seconds, accuracy = measure()
            reached = accuracy >= NETS[net][0]
            print(f"| {net}, {NETS[net][0]:.0%} | {name} | "
                  f"{'' if reached else 'not in '}{seconds:.1f} | "
                  f"{accuracy:.2%} |", flush=True)


if __name__ == "__main__":
    main()
