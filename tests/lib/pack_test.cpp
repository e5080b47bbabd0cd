#include "lib/pack.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"

namespace sluice::pack_test {

at::Tensor through_a_message(const at::Tensor& tensor) {
  Message message;
  pack({tensor}, "h", message);
  return unpack(message, "h").at(0);
}

bool starts_aligned(const at::Tensor& tensor) {
  return reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) %
             kAlignment ==
         0;
}

TEST(Pack, KeepsBitsSizesAndTypeOfEveryType) {
  for (const at::ScalarType type :
       {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kInt,
        at::kShort, at::kChar, at::kByte, at::kBool}) {
    const at::Tensor tensor = at::arange(24).reshape({2, 3, 4}).to(type);
    const at::Tensor received = through_a_message(tensor);
    EXPECT_EQ(received.scalar_type(), type);
    EXPECT_TRUE(received.equal(tensor)) << at::toString(type);
  }
}

TEST(Pack, KeepsTheStridesOfChannelsLast) {
  const at::Tensor tensor =
      at::rand({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor received = through_a_message(tensor);
  EXPECT_EQ(received.strides(), tensor.strides());
  EXPECT_TRUE(received.equal(tensor));
}

TEST(Pack, KeepsTheStridesOfChannelsLastWithOnePixel) {
  const at::Tensor tensor =
      at::rand({2, 3, 1, 1}).contiguous(at::MemoryFormat::ChannelsLast);
  EXPECT_EQ(through_a_message(tensor).strides(), tensor.strides());
}

TEST(Pack, StoresARepeatedDimensionOnce) {
  const at::Tensor tensor = at::rand({4, 1}).expand({4, 100});
  const TensorView view = view_of(tensor, "h");
  EXPECT_EQ(view.buffer.bytes, 4 * sizeof(float));
  EXPECT_EQ(tensor_of(view).strides(), tensor.strides());
  EXPECT_TRUE(tensor_of(view).equal(tensor));
}

TEST(Pack, SharesTheStorageOfWhatLiesDense) {
  const at::Tensor tensor = at::rand({4, 5});
  EXPECT_EQ(through_a_message(tensor).const_data_ptr(),
            tensor.const_data_ptr());
}

TEST(Pack, CopiesWhatHasGaps) {
  const at::Tensor tensor = at::rand({4, 6}).slice(1, 0, 6, 2);
  EXPECT_TRUE(through_a_message(tensor).equal(tensor));
}

TEST(Pack, AlignsWhatStartsOffABoundary) {
  const at::Tensor tensor = at::rand({100}).slice(0, 3);
  EXPECT_FALSE(starts_aligned(tensor));
  const at::Tensor received = through_a_message(tensor);
  EXPECT_TRUE(starts_aligned(received));
  EXPECT_TRUE(received.equal(tensor));
}

TEST(Pack, TakesScalarsAndEmptyTensors) {
  EXPECT_TRUE(
      through_a_message(at::scalar_tensor(3)).equal(at::scalar_tensor(3)));
  EXPECT_EQ(through_a_message(at::empty({0, 3})).sizes(),
            (std::vector<std::int64_t>{0, 3}));
}

TEST(Pack, KeepsSeveralTensorsInOrderUnderTheirName) {
  Message message;
  pack({at::ones({1}), at::zeros({2})}, "h", message);
  pack({at::ones({3})}, "label", message);
  EXPECT_EQ(unpack(message, "h").size(), 2U);
  EXPECT_EQ(unpack(message, "label").at(0).numel(), 3);
}

TEST(Pack, KeepsTheBytesAfterTheSenderForgotThem) {
  Message message;
  pack({at::full({1000}, 7)}, "h", message);
  const at::Tensor received = unpack(message, "h").at(0);
  message = {};
  EXPECT_TRUE(received.eq(7).all().item<bool>());
}

TEST(ReceivedTensor, WrittenInPlaceIsAnError) {
  const Tensors received = {through_a_message(at::rand({3}))};
  const Unchanged unchanged({&received});
  EXPECT_NO_THROW(unchanged.check("layer 1"));
  received[0].flatten().relu_();  // through a view, too
  EXPECT_THROW(unchanged.check("layer 1"), UserError);
}

}  // namespace sluice::pack_test
