// Defects planted in lib/tensors/staging.cpp: each is found, by a report or by
// wrong numbers.
#include "tests/simcuda/mutants/mutants.h"

#include <ATen/ATen.h>

#include "tests/simcuda/tests/simulated_test.h"

namespace sluice::simcuda::mutants_test {

/// Everything by name, for the names of tests.
class StagingMutant : public Simulated,
                      public testing::WithParamInterface<Mutant> {};

/// A tensor there, computed with, released, and back: whether the numbers are
/// right.
bool is_right(const Mutant& staging) {
  at::Tensor there = staging.on_device(pinned(3), kGpu);
  at::Tensor sum = there + 1;
  there = at::Tensor();
  const ToHost back = staging.copy_to_host(sum);
  sum = at::Tensor();
  back.wait();
  return back.tensor.eq(4).all().item<bool>();
}

TEST_P(StagingMutant, IsFound) {
  const bool right = is_right(GetParam());
  const std::vector<std::string> reports = take_reports();
  EXPECT_TRUE(!right || !reports.empty());
}

INSTANTIATE_TEST_SUITE_P(Planted, StagingMutant,
                         testing::ValuesIn(mutants_of_staging()),
                         [](const auto& info) { return info.param.name; });

class Staging : public Simulated {};

TEST_F(Staging, WithoutADefectIsRightAndNothingIsReported) {
  const Mutant none{"none", copy_to_host,
                    [](const at::Tensor& tensor, const c10::Device& device) {
                      return on_device(tensor, device);
                    }};
  EXPECT_TRUE(is_right(none));
}

}  // namespace sluice::simcuda::mutants_test
