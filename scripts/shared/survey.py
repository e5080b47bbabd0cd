"""What every method costs, as docs/survey.md has it: the program's own table."""

HEAD = """# Survey

What `sluice list methods` has, on three axes: computation, communication, approximation. Made by `scripts/survey` of what the program finds
out (`sluice list methods --axes`); a test fails when it isn't so. Each method trains a small network of four blocks for some turns, or
four replicas of that where it is about replicas, on a clock on which a backward takes two forwards:

- *More than a forward and a backward*: passes of a block for a batch beside these, on average over the blocks; boundaries that make a signal
  of their own, by a head or a synthesizer; steps of the optimizer in an update, where there are several.
- *Bytes at boundaries*: those of a turn, in the bytes of the turn's activations there, labels left out. Back-propagation sends 2.
- *Bytes between replicas*: what one replica sends in a turn, in the bytes of its model, on average; a sum goes round a ring.
- *Weights*: what a replica holds, in the bytes of its model: the weights, those of earlier versions, and what replica policies and
  compressors keep that is as large. Neither activations nor the optimizer's state.
- *Staleness*: the updates, and in brackets the batches, by which a gradient is late, at most.
- *Apart*: where replicas have weights of their own, updates from one exchange to the next.

The systems themselves, with papers, keys and tests, are in [coverage.md](coverage.md); a page on each method: `sluice list methods NAME`.

"""


def columns_of(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def page(table):
    """The program's table without what aligns its columns."""
    lines = []
    for line in table.splitlines():
        cells = columns_of(line)
        is_rule = all(set(cell) == {"-"} for cell in cells)
        lines.append("|" + "---|" * len(cells) if is_rule
                     else "| " + " | ".join(cells) + " |")
    return HEAD + "\n".join(lines) + "\n"


def names_of(table):
    """Of its methods, in its order."""
    return [columns_of(line)[0].strip("`") for line in table.splitlines()[2:]]
