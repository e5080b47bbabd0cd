// Defects planted in lib/tensors/gpu/staging.cpp: each is found, by a report or
// by wrong numbers.
#include "tests/simcuda/mutants/mutants.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "tests/simcuda/tests/simulated_test.h"

namespace sluice::simcuda::mutants_test {

/// Everything by name, for the names of tests.
class StagingMutant : public SimulatedGpu,
                      public testing::WithParamInterface<Mutant> {};

/// What is copied in streams of its own.
constexpr std::int64_t kLarge = 2 * kSmallCopy / sizeof(float);

/// Pinned memory that LibTorch's allocator doesn't find by the tensor, which
/// begins in its middle.
at::Tensor from_the_middle(double value, std::int64_t elements) {
  const at::Tensor whole = pinned(value, 2 * elements);
  return at::from_blob(
      static_cast<float*>(whole.data_ptr()) + elements, {elements},
      [whole](void*) {}, at::TensorOptions(at::kFloat));
}

/// A tensor there, computed with, released, and back: whether the numbers are
/// right.
bool is_right(const Mutant& staging, std::int64_t elements = kLarge) {
  at::Tensor there = staging.on_device(pinned(3, elements), kGpu);
  const at::Tensor more = staging.on_device(from_the_middle(1, elements), kGpu);
  at::Tensor sum = there + more;
  there = at::Tensor();
  const HostCopy back = staging.copy_to_host(sum);
  sum = at::Tensor();
  back.wait();
  return back.tensor.eq(4).all().item<bool>();
}

TEST_P(StagingMutant, IsFound) {
  const bool right = is_right(GetParam());
  const std::vector<std::string> reports = take_reports();
  EXPECT_TRUE(!right || !reports.empty());
  // What it has left in streams is not for the next one to be reported.
  c10::impl::VirtualGuardImpl(kGpu.type()).synchronizeDevice(kGpu.index());
}

INSTANTIATE_TEST_SUITE_P(Planted, StagingMutant,
                         testing::ValuesIn(mutants_of_staging()),
                         [](const auto& info) { return info.param.name; });

class Staging : public SimulatedGpu {};

TEST_F(Staging, WithoutADefectIsRightAndNothingIsReported) {
  const Mutant none{"none", copy_to_host,
                    [](const at::Tensor& tensor, const c10::Device& device) {
                      return on_device(tensor, device);
                    }};
  EXPECT_TRUE(is_right(none));
  EXPECT_TRUE(is_right(none, /*elements=*/1000));
}

}  // namespace sluice::simcuda::mutants_test
