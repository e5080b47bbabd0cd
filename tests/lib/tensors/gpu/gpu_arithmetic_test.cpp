#include "lib/tensors/gpu/gpu_arithmetic.h"

#include <map>
#include <string>

#include <ATen/Context.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"

namespace sluice::gpu_arithmetic_test {

using testing::HasSubstr;
using testing::ThrowsMessage;

GpuArithmetic described(const std::map<std::string, bool>& keys) {
  ConfigNode table = {.value = ConfigNode::Table{}};
  for (const auto& [key, value] : keys) table.set(key, {.value = value});
  Fields fields(&table, "");
  GpuArithmetic arithmetic;
  arithmetic.describe(fields);
  return arithmetic;
}

/// Other tests of this process have no deterministic algorithms.
class GpuArithmeticOf : public testing::Test {
 protected:
  ~GpuArithmeticOf() override { set_gpu_arithmetic({.deterministic = false}); }
};

TEST_F(GpuArithmeticOf, AConfigWithoutKeysIsDeterministicFloat32) {
  set_gpu_arithmetic(described({}));
  EXPECT_TRUE(at::globalContext().deterministicAlgorithms());
  EXPECT_FALSE(at::globalContext().allowTF32CuBLAS());
  EXPECT_FALSE(at::globalContext().allowTF32CuDNN());
  EXPECT_FALSE(at::globalContext().benchmarkCuDNN());
}

/// TensorFloat-32 gives the same bits each time.
TEST_F(GpuArithmeticOf, Tf32MayBeDeterministicToo) {
  set_gpu_arithmetic(described({{"tf32", true}}));
  EXPECT_TRUE(at::globalContext().deterministicAlgorithms());
  EXPECT_TRUE(at::globalContext().allowTF32CuBLAS());
  EXPECT_TRUE(at::globalContext().allowTF32CuDNN());
}

TEST_F(GpuArithmeticOf, WhatIsTimedIsNotDeterministic) {
  set_gpu_arithmetic(
      described({{"deterministic", false}, {"cudnn_benchmark", true}}));
  EXPECT_FALSE(at::globalContext().deterministicAlgorithms());
  EXPECT_TRUE(at::globalContext().benchmarkCuDNN());
  EXPECT_THAT(
      [] {
        described({{"cudnn_benchmark", true}});
      },
      ThrowsMessage<UserError>(HasSubstr("set deterministic = false")));
}

}  // namespace sluice::gpu_arithmetic_test
