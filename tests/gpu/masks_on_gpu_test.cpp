// A mask drawn for a GPU has the bits of the CPU. Where no kernel of ours can
// run, as on the simulated GPU, it is drawn on the CPU and copied.
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lib/tensors/device.h"
#include "lib/tensors/philox_mask.h"
#include "modules/dropout.h"

namespace sluice::masks_on_gpu_test {

const c10::Device kGpu(c10::DeviceType::CUDA, 0);

class MaskOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (count_gpus() == 0) GTEST_SKIP() << "no GPU";
  }
};

/// An empty tensor like `here`, there.
at::Tensor there_like(const at::Tensor& here) {
  return at::empty_strided(here.sizes(), here.strides(),
                           here.options().device(kGpu));
}

TEST_F(MaskOnGpu, HasTheBitsOfTheCpuWithAnyStrides) {
  for (const at::Tensor& here :
       {at::empty({1000, 333}), at::empty({3, 64, 28, 28}),
        at::empty({3, 64, 28, 28}).contiguous(at::MemoryFormat::ChannelsLast),
        at::empty({20, 30}).t()}) {
    const at::Tensor there = there_like(here);
    fill_philox_mask(here, 0.3, 7);
    fill_philox_mask(there, 0.3, 7);
    EXPECT_TRUE(there.cpu().equal(here)) << here.sizes() << here.strides();
    EXPECT_EQ(there.strides(), here.strides());
  }
}

TEST_F(MaskOnGpu, MaskOfADropoutIsThatOfTheCpu) {
  for (const Masks masks : {Masks::generator, Masks::philox})
    for (const DropoutUnit unit :
         {DropoutUnit::element, DropoutUnit::channel}) {
      const Pass pass = {.seed = 1, .batch = 2, .layer = 3, .masks = masks};
      const at::Tensor here =
          at::ones({4, 6, 9, 5}).contiguous(at::MemoryFormat::ChannelsLast);
      Dropout dropout(0.4, unit);
      const at::Tensor there =
          dropout.forward({here.to(kGpu)}, pass).front().cpu();
      EXPECT_TRUE(there.equal(dropout.forward({here}, pass).front()));
    }
}

}  // namespace sluice::masks_on_gpu_test
