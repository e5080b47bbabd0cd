#!/usr/bin/env python3
"""Images a second: Sluice's image_folder and image_shards against torchvision's
ImageFolder in a DataLoader, with as many workers, in turns.

    tests/benchmarks/loader.py [--images 600] [--rounds 3] [--workers 1,2]
                               [--program build/release/sluice]

JPEGs of 500 x 375, of which a random part is resized to 224 x 224, mirrored and
normalised, in batches of 64. Sluice trains a linear layer on them meanwhile; the
DataLoader's batches are thrown away. Needs torch, torchvision and Pillow.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import time

import numpy
import torch
from PIL import Image

BATCH = 64


def load_torchvision():
    """torchvision, also where its operators weren't built for this torch."""
    try:
        import torchvision
    except RuntimeError:
        for name in ["nms", "qnms"]:
            torch.library.define(
                f"torchvision::{name}",
                "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        for name in list(sys.modules):
            if name.startswith("torchvision"):
                del sys.modules[name]
        import torchvision
    return torchvision


def write_images(folder, count):
    """Smooth noise: as many bytes as a photograph has."""
    draw = numpy.random.default_rng(1)
    for i in range(count):
        small = draw.integers(0, 256, (24, 32, 3), dtype=numpy.uint8)
        image = Image.fromarray(small).resize((500, 375), Image.BICUBIC)
        noise = draw.integers(-12, 13, (375, 500, 3))
        pixels = numpy.clip(numpy.asarray(image) + noise, 0, 255)
        place = folder / "train" / str(i % 2)
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.astype(numpy.uint8)).save(
            place / f"{i:06d}.jpg", quality=85)
    for label in "01":
        place = folder / "test" / label
        place.mkdir(parents=True)
        first = next((folder / "train" / label).iterdir())
        (place / "0.jpg").write_bytes(first.read_bytes())


def write_shards(folder):
    for split in ["train", "test"]:
        with tarfile.open(folder / f"{split}.tar", "w") as tar:
            for file in sorted((folder / split).glob("*/*.jpg")):
                key = f"{file.parent.name}-{file.stem}"
                label = folder / "label"
                label.write_text(file.parent.name)
                tar.add(file, f"{key}.jpg")
                tar.add(label, f"{key}.cls")


def sluice_speed(program, folder, data, workers, turns):
    with tempfile.TemporaryDirectory() as out:
        config = pathlib.Path(out) / "config.toml"
        config.write_text(f"""
blocks = 1
turns = {turns}
batch_size = {BATCH}
threads = 1
evaluate_every = 0
[data]
{data}
folder = "{folder}"
workers = {workers}
augment = {{resized_crop = 0.08, flip = true}}
[model]
hidden = []
[optimizer]
name = "sgd"
lr = 1e-6
""")
        subprocess.run([program, "run", str(config), "--dir", f"{out}/run"],
                       check=True, stdout=subprocess.DEVNULL)
        times = [json.loads(line)["time"]
                 for line in open(f"{out}/run/metrics.jsonl")
                 if '"kind":"train"' in line]
    return BATCH * (len(times) - 1) / (times[-1] - times[0])


def torch_speed(folder, workers, turns):
    vision = load_torchvision()
    change = vision.transforms.Compose([
        vision.transforms.RandomResizedCrop(224),
        vision.transforms.RandomHorizontalFlip(),
        vision.transforms.ToTensor(),
        vision.transforms.Normalize([0.485, 0.456, 0.406],
                                    [0.229, 0.224, 0.225])])
    images = vision.datasets.ImageFolder(folder / "train", change)
    loader = torch.utils.data.DataLoader(
        images, BATCH, shuffle=True, drop_last=True, num_workers=workers,
        persistent_workers=True)
    done, begin = 0, None
    while done < turns:
        for _ in loader:
            begin = begin or time.monotonic()
            done += 1
            if done == turns:
                break
    return BATCH * (turns - 1) / (time.monotonic() - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--turns", type=int, default=27)
    parser.add_argument("--program", default="build/release/sluice")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_images(folder, arguments.images)
        write_shards(folder)
        kinds = {"image_folder": 'name = "image_folder"',
                 "image_shards": 'name = "image_shards"\n'
                                 'train = "train.tar"\ntest = "test.tar"'}
        for workers in map(int, arguments.workers.split(",")):
            speeds = {name: [] for name in [*kinds, "DataLoader"]}
            for _ in range(arguments.rounds):
                for kind, data in kinds.items():
                    speeds[kind].append(sluice_speed(
                        arguments.program, folder, data, workers,
                        arguments.turns))
                speeds["DataLoader"].append(
                    torch_speed(folder, workers, arguments.turns))
            rival = numpy.median(speeds["DataLoader"])
            for kind, found in speeds.items():
                print(f"{workers} workers  {kind:12}  "
                      f"{numpy.median(found):6.0f} images/s "
                      f"({min(found):.0f} to {max(found):.0f}), "
                      f"{numpy.median(found) / rival:.2f} of the DataLoader")


if __name__ == "__main__":
    main()
