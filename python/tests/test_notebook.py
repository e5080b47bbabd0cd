"""The notebook does what it shows."""
import json
import pathlib

import pytest

NOTEBOOK = (pathlib.Path(__file__).resolve().parents[1]
            / "examples/three_methods.ipynb")


def code_cells():
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells
            if cell["cell_type"] == "code"]


def test_it_has_ten_lines_of_code():
    lines = [line for cell in code_cells() for line in cell.splitlines()
             if line.strip()]
    assert len(lines) <= 10


def test_its_cells_end_in_a_plot_of_three_methods(program, here, monkeypatch):
    pytest.importorskip("pandas")
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    monkeypatch.setenv("SLUICE_PROGRAM", program)
    names = {}
    for i, cell in enumerate(code_cells()):
        exec(compile(cell, f"cell {i + 1}", "exec"), names)
    labels = [line.get_label() for line in names["axes"].get_lines()]
    assert labels == ["backprop", "local_loss", "delayed_gradient"]
    for line in names["axes"].get_lines():
        assert line.get_ydata()[-1] > 0.5  # it has learned
