#include "lib/tensors/pack.h"

#include <chrono>
#include <cstring>
#include <memory>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/base/messages/memory_channel.h"
#include "lib/tensors/gpu/staged_sender.h"

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

/// As on a GPU, with memory of the host: the owner is a tensor, perhaps of
/// bytes only.
TensorView as_on_a_gpu(const at::Tensor& tensor) {
  TensorView view = view_of(tensor, "h");
  view.buffer.device = {.kind = Device::Kind::cuda};
  return view;
}

TEST(PackOnGpu, TensorsShareTheStorageOfTheOwner) {
  for (const at::Tensor& tensor :
       {at::rand({4, 5}), at::rand({4, 1}).expand({4, 100}),
        at::rand({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast),
        at::arange(64).slice(0, 16), at::scalar_tensor(3), at::empty({0, 3})}) {
    const at::Tensor again = tensor_of(as_on_a_gpu(tensor));
    EXPECT_EQ(again.strides(), tensor.strides());
    EXPECT_TRUE(again.equal(tensor));
    EXPECT_TRUE(tensor.numel() == 0 || again.is_alias_of(tensor));
  }
}

TEST(PackOnGpu, AnOwnerMayBeBytes) {
  const at::Tensor tensor = at::rand({3, 4});
  TensorView view = view_of(tensor, "h");
  const at::Tensor bytes = at::empty({48}, at::kByte);
  std::memcpy(bytes.data_ptr(), tensor.const_data_ptr(), 48);
  view.buffer = as_on_a_gpu(bytes).buffer;
  EXPECT_TRUE(tensor_of(view).equal(tensor));
}

TEST(PackOnGpu, StoredElementsAreThoseOfEachRepeatedDimensionOnce) {
  const at::Tensor tensor = at::rand({4, 1}).expand({4, 100});
  EXPECT_TRUE(stored_elements(as_on_a_gpu(tensor))
                  .equal(tensor.select(1, 0).contiguous()));
}

TEST(StagedSender, LeavesWhatIsOnTheHostAsItIs) {
  auto [sender, receiver] = memory_channel(1, std::chrono::seconds(10), "test");
  const auto traffic = std::make_shared<DeviceTraffic>();
  const auto staging = staged_sender(std::move(sender), traffic);
  const at::Tensor tensor = at::rand({4, 5});
  Message message;
  pack({tensor}, "h", message);
  staging->send(std::move(message));
  EXPECT_EQ(unpack(*receiver->receive(), "h").at(0).const_data_ptr(),
            tensor.const_data_ptr());
  EXPECT_EQ(traffic->through_host, 0);
}

TEST(ReceivedTensor, WrittenInPlaceIsAnError) {
  const Tensors received = {through_a_message(at::rand({3}))};
  const WriteCheck unchanged({&received});
  EXPECT_NO_THROW(unchanged.check("layer 1"));
  received[0].flatten().relu_();  // through a view, too
  EXPECT_THROW(unchanged.check("layer 1"), UserError);
}

}  // namespace sluice::pack_test
