// sluice::main(), called as a program of one's own does.
#include "experiments/api/program.h"

#include <cstdlib>

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include "lib/memory/allocator.h"

namespace sluice::own_program_test {

/// In a process of its own: an allocator can't be taken out again.
void expect_in_new_process(const std::function<bool()>& condition) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(std::exit(condition() ? 0 : 1), testing::ExitedWithCode(0), "");
}

NetworkOptions two_layers() {
  return {.layers = {[] { return torch::nn::Linear(4, 3); },
                     [] { return torch::nn::Linear(3, 2); }},
          .example = at::zeros({1, 4})};
}

// Issue 18, item 15: without it a convolutional net trained at 0.57 of the
// speed of a tuned loop.
TEST(OwnProgram, HasTheFastAllocatorOnEveryEngine) {
  // What can be installed at all: not under AddressSanitizer.
  for (const char* engine : {"engine=virtual", "engine=threads"})
    expect_in_new_process([engine] {
      if (allocator_installed()) return false;
      bool seen = false;
      std::string name = "own";
      std::string override_text = engine;
      char* arguments[] = {name.data(), override_text.data(), nullptr};
      const int status = main(2, arguments, two_layers(), [&](Network&) {
        const bool was = allocator_installed();
        seen = was == install_allocator();
      });
      return seen && status == 0;
    });
}

TEST(OwnProgram, HasTheAllocatorOnlyThroughMain) {
  expect_in_new_process([] {
    const Network net(two_layers());
    return !allocator_installed();
  });
}

}  // namespace sluice::own_program_test
