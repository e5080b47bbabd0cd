#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/boundaries/codecs/codec.h"
#include "lib/boundaries/codecs/coded.h"
#include "lib/tensors/pack.h"

namespace sluice::hadamard4_test {

using Sizes = std::vector<std::int64_t>;

const Codec& codec() {
  static const auto made = find_row(codecs(), "hadamard4", "codec").make();
  return *made;
}

at::Tensor received(const at::Tensor& tensor) {
  return as_received({tensor}, &codec()).at(0);
}

std::size_t bytes_of(const at::Tensor& tensor) {
  Message message;
  pack({tensor}, "h", &codec(), message);
  return payload_bytes(message);
}

at::Tensor numbers(const Sizes& sizes) {
  return at::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(1));
}

double error_of(const at::Tensor& tensor) {
  return ((received(tensor) - tensor).norm() / tensor.norm()).item<double>();
}

/// What comes by the definition: signs, a matrix, codes, and back.
at::Tensor by_matrix(const at::Tensor& rows) {
  const std::int64_t length = rows.size(1);
  at::Tensor matrix = at::ones({1, 1}, at::kDouble);
  while (matrix.size(0) < length)
    matrix =
        at::cat({at::cat({matrix, matrix}, 1), at::cat({matrix, -matrix}, 1)});
  at::Tensor signs = at::empty({length}, at::kDouble);
  for (std::int64_t i = 0; i < length; ++i) {
    std::uint64_t mixed =
        static_cast<std::uint64_t>(i + 1) * 0x9e3779b97f4a7c15U;
    int ones = 0;
    for (; mixed != 0; mixed >>= 1U) ones += static_cast<int>(mixed & 1U);
    signs[i] = ones % 2 == 0 ? 1 : -1;
  }
  const double root = std::sqrt(static_cast<double>(length));
  const at::Tensor turned =
      (rows.to(at::kDouble) * signs).matmul(matrix) / root;
  const at::Tensor scales = std::get<0>(turned.abs().max(1, true)) / 7;
  const at::Tensor codes = (turned / scales).round() * scales;
  return (codes.matmul(matrix) / root * signs).to(at::kFloat);
}

TEST(Hadamard4, IsARotationAndSevenths) {
  for (const std::int64_t length : {16, 64, 128}) {
    const at::Tensor rows = numbers({5, length});
    EXPECT_TRUE(received(rows).allclose(by_matrix(rows), 1e-4, 1e-5)) << length;
  }
}

TEST(Hadamard4, IsWithinAnEighthOfNormalNumbers) {
  EXPECT_LT(error_of(numbers({64, 512})), 0.125);
  EXPECT_GT(error_of(numbers({64, 512})), 0.05);
}

TEST(Hadamard4, SendsHalfABytePerNumberAndAScaleForEachGroup) {
  const std::size_t shape = 3;  // a byte each, for the shape and its order
  EXPECT_EQ(bytes_of(numbers({32, 256})), 32U * (128 + 2 * 4) + shape);
  EXPECT_EQ(bytes_of(numbers({8, 3, 10, 10})), 24U * (64 + 4) + shape)
      << "300 numbers in three groups of 128";
  EXPECT_EQ(bytes_of(numbers({8, 16, 64})), 128U * (32 + 4) + shape);
}

// A scale of its magnitude would leave nothing of all others in the row.
TEST(Hadamard4, AnOutlierLeavesItsNeighboursTheirBits) {
  const at::Tensor tensor = numbers({1, 128});
  tensor[0][5] = 40;
  const at::Tensor back = received(tensor);
  const at::Tensor others =
      at::cat({back.slice(1, 0, 5) - tensor.slice(1, 0, 5),
               back.slice(1, 6) - tensor.slice(1, 6)},
              1);
  EXPECT_LT(others.abs().max().item<double>(), 40.0 / 14);
  EXPECT_LT(others.norm().item<double>(),
            0.6 * tensor.slice(1, 6).norm().item<double>());
}

TEST(Hadamard4, KeepsSizesTypesAndStrides) {
  const Tensors all = {
      numbers({6, 10}),
      numbers({2, 3, 4, 5}),
      numbers({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast),
      numbers({2, 3, 4}),
      numbers({4, 2, 8}).transpose(0, 1),
      numbers({2, 3, 2, 2, 2}),
      numbers({9}),
      numbers({}),
      at::empty({0, 3}),
      at::empty({3, 0}),
      numbers({4, 5}).to(at::kDouble),
      numbers({4, 50}).to(at::kBFloat16)};
  for (const at::Tensor& tensor : all) {
    const at::Tensor back = received(tensor);
    Message message;
    pack({tensor}, "h", message);
    EXPECT_EQ(back.sizes(), tensor.sizes());
    EXPECT_EQ(back.strides(), unpack(message, "h").at(0).strides())
        << tensor.sizes();
    EXPECT_EQ(back.scalar_type(), tensor.scalar_type());
    if (tensor.numel() > 0) {
      EXPECT_LT(error_of(tensor.to(at::kFloat)), 0.3) << tensor.sizes();
    }
  }
}

TEST(Hadamard4, DoesNotAskHowATensorLies) {
  const at::Tensor tensor = numbers({3, 4, 5, 6});
  EXPECT_TRUE(received(tensor.contiguous(at::MemoryFormat::ChannelsLast))
                  .equal(received(tensor)));
}

TEST(Hadamard4, ASampleDoesNotChangeOthers) {
  const at::Tensor tensor = numbers({3, 200});
  const at::Tensor alone = received(tensor);
  tensor[1].fill_(1e6);
  EXPECT_TRUE(received(tensor)[2].equal(alone[2]));
}

TEST(Hadamard4, KeepsZerosAndShowsWhatDiverged) {
  EXPECT_TRUE(received(at::zeros({3, 40})).equal(at::zeros({3, 40})));
  for (const float bad : {std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    const at::Tensor tensor = numbers({2, 64});
    tensor[0][3] = bad;
    const at::Tensor back = received(tensor);
    EXPECT_TRUE(back[0].isnan().all().item<bool>());
    EXPECT_FALSE(back[1].isnan().any().item<bool>());
  }
}

TEST(Hadamard4, RefusesWhatItDoesNotSend) {
  const Tensors good = codec().encode(numbers({4, 6}));
  EXPECT_NO_THROW(codec().decode(good));
  const auto with = [&](std::size_t place, const at::Tensor& part) {
    Tensors parts = good;
    parts[place] = part;
    return parts;
  };
  const at::Tensor byte = at::zeros({}, at::kByte);
  const std::vector<Tensors> wrong = {{},
                                      {good[0]},
                                      with(1, good[1].narrow(0, 0, 2)),
                                      with(1, good[1].to(at::kShort)),
                                      with(2, at::ones({5})),
                                      with(3, byte.expand({4, 600})),
                                      with(4, byte.expand({1, 1})),
                                      with(4, byte.expand({1, 2, 3})),
                                      with(4, byte.expand({1, 3}))};
  for (const Tensors& parts : wrong)
    EXPECT_THROW(codec().decode(parts), LinkError);
}

}  // namespace sluice::hadamard4_test
