#!/usr/bin/env python3
"""Plants each violation in a small tree and checks that it is found."""
import unittest

import includes


def complaints(tree):
    return list(includes.complaints(tree))


class Includes(unittest.TestCase):
    def test_a_tree_whose_includes_go_down_is_accepted(self):
        tree = {
            "lib/base/error.h": ["string", "fmt/format.h"],
            "lib/kernels/loops.cu": ["lib/base/error.h", "cuda_runtime.h"],
            "lib/blocks/block.h": ["lib/base/error.h", "lib/kernels/loops.h",
                            "ATen/core/Tensor.h"],
            "modules/mlp.cpp": ["lib/blocks/block.h", "lib/base/error.h"],
            "auxiliary_heads/linear.cpp": ["lib/blocks/block.h"],
            "transport/links/link.cpp": ["lib/base/error.h", "boost/asio.hpp"],
            "experiments/program/main.cpp": ["modules/mlp.h", "transport/links/link.h",
                                     "auxiliary_heads/linear.h",
                                     "lib/blocks/block.h", "boost/asio.hpp"],
        }
        self.assertEqual(complaints(tree), [])

    def assert_refused(self, file, included, reason):
        found = complaints({file: [included]})
        self.assertEqual(found, [f'{file}: "{included}": {reason}'])

    def test_base_may_not_include_the_rest_of_lib(self):
        self.assert_refused("lib/base/error.h", "lib/blocks/block.h",
                            "lib/base is not above lib/blocks")

    def test_kernels_may_not_include_the_rest_of_lib(self):
        self.assert_refused("lib/kernels/loops.cu", "lib/blocks/block.h",
                            "lib/kernels is not above lib/blocks")

    def test_kernels_may_not_know_libtorch(self):
        self.assert_refused("lib/kernels/loops.cu", "ATen/ATen.h",
                            "lib/kernels may not know LibTorch")

    def test_lib_may_not_include_a_plug_in(self):
        self.assert_refused("lib/engines/virtual.cpp", "modules/mlp.h",
                            "lib may not include modules")

    def test_lib_may_not_include_experiments(self):
        self.assert_refused("lib/blocks/block.cpp", "experiments/runs/run.h",
                            "lib/blocks is not above experiments/runs")

    def test_modules_may_not_include_heads(self):
        self.assert_refused("modules/mlp.cpp", "auxiliary_heads/linear.h",
                            "modules is not above auxiliary_heads")

    def test_heads_may_not_include_modules(self):
        self.assert_refused("auxiliary_heads/linear.cpp", "modules/mlp.h",
                            "auxiliary_heads may not include modules")

    def test_transport_may_include_nothing_of_lib_but_base(self):
        self.assert_refused("transport/links/link.h", "lib/blocks/block.h",
                            "transport/links is not above lib/blocks")

    def test_base_may_not_know_libtorch(self):
        self.assert_refused("lib/base/buffer.cpp", "ATen/ATen.h",
                            "lib/base may not know LibTorch")

    def test_transport_may_not_know_libtorch(self):
        self.assert_refused("transport/links/link.cpp", "torch/types.h",
                            "transport/links may not know LibTorch")

    def test_a_meeting_of_processes_may_not_know_kernels(self):
        self.assert_refused("transport/meeting/peer_acceptor.h", "lib/kernels/loops.h",
                            "only lib may include lib/kernels")

    def test_folders_of_a_floor_may_not_include_each_other(self):
        self.assert_refused("experiments/report/study/study.cpp",
                            "experiments/sweep/file/sweep.h",
                            "experiments/report/study is not above "
                            "experiments/sweep/file")

    def test_a_folder_of_46_files_is_refused(self):
        tree = {f"lib/blocks/layer_{i}.cpp": [] for i in range(46)}
        self.assertEqual(complaints(tree), [
            "lib/blocks: 46 files; a folder has 45 at most: divide it"])
        del tree["lib/blocks/layer_0.cpp"]
        self.assertEqual(complaints(tree), [])

    def test_heads_may_not_include_kernels(self):
        self.assert_refused("auxiliary_heads/linear.cpp", "lib/kernels/loops.h",
                            "only lib may include lib/kernels")

    def test_what_lies_in_no_folder_for_sources_may_not_be_included(self):
        self.assert_refused("transport/links/link.cpp",
                            "lib/tensors/detail/x.hpp",
                            "lib/tensors/detail is no folder for sources")

    def test_readers_of_files_may_not_know_libtorch(self):
        self.assert_refused("experiments/data/files/idx_file.cpp",
                            "ATen/ATen.h",
                            "experiments/data/files may not know LibTorch")

    def test_no_file_lies_flat(self):
        for file in ("lib/block.h", "experiments/run.cpp"):
            self.assertEqual(complaints({file: []}),
                             [f"{file}: {file.split('/')[0]} is no folder for "
                              "sources"])

    def test_schedules_may_not_know_libtorch(self):
        self.assert_refused("lib/schedules/plan/plan.h", "ATen/ATen.h",
                            "lib/schedules/plan may not know LibTorch")

    def test_lib_may_not_include_boost(self):
        self.assert_refused("lib/engines/threads.cpp", "boost/asio.hpp",
                            "only transport and experiments may include Boost")

    def test_a_path_that_climbs_is_refused(self):
        self.assert_refused("lib/blocks/block.h", "../modules/mlp.h",
                            "includes are written from the root of the "
                            "repository")

    def test_a_cycle_is_found_and_named(self):
        tree = {
            "lib/base/a.h": ["lib/base/b.h"],
            "lib/base/b.h": ["lib/base/c.h"],
            "lib/base/c.h": ["lib/base/a.h"],
        }
        self.assertEqual(
            complaints(tree),
            ["cycle of includes: lib/base/a.h -> lib/base/b.h -> "
             "lib/base/c.h -> lib/base/a.h"])


if __name__ == "__main__":
    unittest.main()
