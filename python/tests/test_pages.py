"""The Python of the pages runs, as a reader would copy it, with less data.

A snippet that imports sluice begins a script; one that doesn't goes on with it.
"""
import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import pytest

import sluice

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIG = "experiments/configs/quickstart/local_loss.toml"
# Pages whose Python other tests have, or that needs what isn't there.
NOT_TRIED = {
    "docs/howto/torchscript.md": "its ResNet-18: test_scripted_resnet18.py"}
# What a page's snippets leave to the reader.
BEFORE = {"README.md": """
from functools import partial
import torch
from torch import nn
import sluice
loader = [(torch.randn(8, 784), torch.arange(8))]
model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
"""}
# Less of it, by the same calls.
SHORTER = {
    'dataset("drawn_digits", train=2000)': 'dataset("drawn_digits", train=64)',
    'dataset("drawn_digits")': 'dataset("drawn_digits", train=256, test=64)',
    'dataset("drawn_digits", "test")':
        'dataset("drawn_digits", "test", train=256, test=64)'}
SMALL = f"""
extends = ["{ROOT / CONFIG}"]
engine = "virtual"
threads = 1
data = {{train = 128, test = 64}}
"""


def snippets(text):
    return re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)


def scripts_of(page):
    """Scripts of a page of docs."""
    found = []
    for snippet in snippets((ROOT / page).read_text(encoding="utf-8")):
        if "import sluice" in snippet or not found:
            found.append(BEFORE.get(page, ""))
        found[-1] += snippet
    return found


def pages():
    all_of_them = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
    return [str(page.relative_to(ROOT)) for page in all_of_them
            if snippets(page.read_text(encoding="utf-8"))]


def lacks(script):
    """Why a script can't be run here; empty: it can."""
    wanted = ["torch", "pandas", "matplotlib"]
    if "torchvision" in script:
        wanted.append("torchvision")
    for package in wanted:
        if importlib.util.find_spec(package) is None:
            return f"no {package}"
    if "sluice.Network" in script:
        from sluice.extension import native
        try:
            native()
        except sluice.SluiceError as error:
            return str(error)
    return ""


def shorter(script):
    for whole, less in SHORTER.items():
        script = script.replace(whole, less)
    return script


def test_every_page_that_is_not_tried_is_there():
    assert set(NOT_TRIED) | set(BEFORE) <= set(pages())


def test_every_shorter_call_replaces_one_of_the_pages():
    text = "".join(sum(map(scripts_of, pages()), []))
    assert [whole for whole in SHORTER if whole not in text] == []


@pytest.mark.parametrize(
    "page, number", [(page, number) for page in pages()
                     if page not in NOT_TRIED
                     for number in range(len(scripts_of(page)))])
def test_the_python_of_a_page_runs(page, number, program, here):
    script = scripts_of(page)[number]
    missing = lacks(script)
    if missing:
        pytest.skip(missing)
    (here / CONFIG).parent.mkdir(parents=True)
    (here / CONFIG).write_text(SMALL)
    (here / "mine.py").write_text(shorter(script))
    done = subprocess.run(
        [sys.executable, "-B", "mine.py"], text=True, capture_output=True,
        env={**os.environ, "MPLBACKEND": "Agg", "SLUICE_PROGRAM": program})
    assert done.returncode == 0, done.stderr
