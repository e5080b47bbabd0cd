#!/usr/bin/env python3
"""Writes a C++ file with mutants of lib/tensors/gpu/staging.cpp.

usage: plant.py STAGING.cpp OUT.cpp

A mutant is a copy of the file with one defect, in a namespace of its own. One
whose text is no longer in the file once is an error: update the table.
"""
import pathlib
import sys

# Name, what is replaced, by what.
MUTANTS = [
    ("copies_out_without_order",
     "  order(computing_on(tensor.device()), copies);\n", ""),
    ("copies_out_without_record_stream",
     "  tensor.record_stream(copies);\n", ""),
    ("copies_out_without_wait", "done->synchronize();", ""),
    ("copies_out_with_the_event_of_another_stream",
     "  done->record(copies);\n",
     "  done->record(computing_on(tensor.device()));\n"),
    ("copies_in_without_order", "  arrived->block(computing);\n", ""),
    ("copies_in_with_the_order_reversed",
     "  arrived->record(copies);\n  arrived->block(computing);\n",
     "  arrived->record(computing);\n  arrived->block(copies);\n"),
    ("copies_in_without_keeping_the_source",
     "  if (!allocator_keeps(tensor, copies)) keep_until(arrived, tensor);\n",
     ""),
    ("copies_in_without_record_stream",
     "  copy.record_stream(computing);\n", ""),
]

HEAD = """// Written by tests/simcuda/mutants/plant.py: don't edit.
#include "tests/simcuda/mutants/mutants.h"

"""


def planted(source, name, before, after):
    if source.count(before) != 1:
        sys.exit(f"plant.py: {name}: {source.count(before)} times in the file:"
                 f" {before!r}")
    return source.replace(before, after).replace(
        "namespace sluice {", f"namespace sluice::{name} {{")


def row(name):
    return (f'      {{"{name}", {name}::copy_to_host,\n'
            f"       [](const at::Tensor& tensor, const c10::Device& device) {{\n"
            f"         return {name}::on_device(tensor, device);\n"
            f"       }}}},\n")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
    copies = [planted(source, *mutant) for mutant in MUTANTS]
    rows = "".join(row(mutant[0]) for mutant in MUTANTS)
    pathlib.Path(sys.argv[2]).write_text(
        HEAD + "\n".join(copies) + "\nnamespace sluice {\n\n"
        "std::vector<Mutant> mutants_of_staging() {\n  return {\n" + rows +
        "  };\n}\n\n}  // namespace sluice\n", encoding="utf-8")


if __name__ == "__main__":
    main()
