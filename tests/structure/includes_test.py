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
            "lib/block.h": ["lib/base/error.h", "lib/kernels/loops.h",
                            "ATen/core/Tensor.h"],
            "modules/mlp.cpp": ["lib/block.h", "lib/base/error.h"],
            "auxiliary_heads/linear.cpp": ["lib/block.h"],
            "transport/link.cpp": ["lib/base/error.h", "boost/asio.hpp"],
            "experiments/main.cpp": ["modules/mlp.h", "transport/link.h",
                                     "auxiliary_heads/linear.h",
                                     "lib/block.h", "boost/asio.hpp"],
        }
        self.assertEqual(complaints(tree), [])

    def assert_refused(self, file, included, reason):
        found = complaints({file: [included]})
        self.assertEqual(found, [f'{file}: "{included}": {reason}'])

    def test_base_may_not_include_the_rest_of_lib(self):
        self.assert_refused("lib/base/error.h", "lib/block.h",
                            "lib/base may not include lib")

    def test_kernels_may_not_include_the_rest_of_lib(self):
        self.assert_refused("lib/kernels/loops.cu", "lib/block.h",
                            "lib/kernels may not include lib")

    def test_kernels_may_not_know_libtorch(self):
        self.assert_refused("lib/kernels/loops.cu", "ATen/ATen.h",
                            "lib/kernels may not know LibTorch")

    def test_lib_may_not_include_a_plug_in(self):
        self.assert_refused("lib/engines/virtual.cpp", "modules/mlp.h",
                            "lib may not include modules")

    def test_lib_may_not_include_experiments(self):
        self.assert_refused("lib/block.cpp", "experiments/run.h",
                            "lib may not include experiments")

    def test_modules_may_not_include_heads(self):
        self.assert_refused("modules/mlp.cpp", "auxiliary_heads/linear.h",
                            "modules may not include auxiliary_heads")

    def test_heads_may_not_include_modules(self):
        self.assert_refused("auxiliary_heads/linear.cpp", "modules/mlp.h",
                            "auxiliary_heads may not include modules")

    def test_transport_may_include_nothing_of_lib_but_base(self):
        self.assert_refused("transport/link.h", "lib/block.h",
                            "transport may not include lib")

    def test_base_may_not_know_libtorch(self):
        self.assert_refused("lib/base/buffer.cpp", "ATen/ATen.h",
                            "lib/base may not know LibTorch")

    def test_transport_may_not_know_libtorch(self):
        self.assert_refused("transport/link.cpp", "torch/types.h",
                            "transport may not know LibTorch")

    def test_lib_may_not_include_boost(self):
        self.assert_refused("lib/engines/threads.cpp", "boost/asio.hpp",
                            "only transport and experiments may include Boost")

    def test_a_path_that_climbs_is_refused(self):
        self.assert_refused("lib/block.h", "../modules/mlp.h",
                            "includes are written from the root of the "
                            "repository")

    def test_a_cycle_is_found_and_named(self):
        tree = {
            "lib/a.h": ["lib/b.h"],
            "lib/b.h": ["lib/c.h"],
            "lib/c.h": ["lib/a.h"],
        }
        self.assertEqual(
            complaints(tree),
            ["cycle of includes: lib/a.h -> lib/b.h -> lib/c.h -> lib/a.h"])


if __name__ == "__main__":
    unittest.main()
