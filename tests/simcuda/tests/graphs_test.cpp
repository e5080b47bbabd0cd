// Graphs on the simulated GPU: what is captured is not done, a replay does it,
// and what CUDA refuses is refused.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/GraphImplInterface.h>
#include <c10/core/StreamGuard.h>
#include <gmock/gmock.h>
#include <torch/autograd.h>

#include "lib/tensors/gpu/cuda_ipc.h"
#include "lib/tensors/gpu/device_graph.h"
#include "lib/tensors/philox_mask.h"
#include "tests/simcuda/tests/simulated_test.h"

namespace sluice::simcuda::graphs_test {

using testing::ElementsAre;
using testing::HasSubstr;

class Graphs : public SimulatedGpu {};

at::Tensor on_gpu(double value, std::int64_t elements = 1000) {
  return at::full({elements}, value, kGpu);
}

bool are_all(const at::Tensor& tensor, double value) {
  return tensor.cpu().eq(value).all().item<bool>();
}

/// What a capture of this work is refused with.
std::string refusal_of(const std::function<void()>& work) {
  try {
    const DeviceGraph graph(kGpu, work);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "";
}

TEST_F(Graphs, ACaptureDoesNothing) {
  const at::Tensor x = on_gpu(2);
  at::Tensor sum;
  const std::int64_t before = counts().launches;
  const DeviceGraph graph(kGpu, [&] {
    sum = x + 1;
    x.add_(sum);
  });
  EXPECT_EQ(counts().launches, before);
  EXPECT_TRUE(are_all(x, 2));
  EXPECT_FALSE(sum.cpu().eq(3).any().item<bool>());
}

TEST_F(Graphs, AReplayIsOneLaunchForAllOperations) {
  const at::Tensor x = on_gpu(2);
  at::Tensor sum;
  DeviceGraph graph(kGpu, [&] { sum = (x + 1).mul_(2).sub(x); });
  const std::int64_t before = counts().launches;
  graph.replay();
  EXPECT_EQ(counts().launches, before + 1);
  EXPECT_TRUE(are_all(sum, 4));
}

TEST_F(Graphs, ReplaysTakeTheInputsOfTheirTime) {
  const at::Tensor x = on_gpu(2);
  at::Tensor sum;
  DeviceGraph graph(kGpu, [&] {
    sum = x + 1;
    x.add_(10);
  });
  graph.replay();
  EXPECT_TRUE(are_all(sum, 3));
  x.fill_(5);
  graph.replay();
  EXPECT_TRUE(are_all(sum, 6));
  EXPECT_TRUE(are_all(x, 15));
}

TEST_F(Graphs, ViewsAndListsAndCopiesAreReplayed) {
  const at::Tensor x = at::zeros({4, 6}, kGpu);
  const at::Tensor y = at::zeros({6, 4}, kGpu);
  std::vector<at::Tensor> parts;
  DeviceGraph graph(kGpu, [&] {
    y.copy_(x.t());
    at::_foreach_add_({y, x}, 1);
    parts = at::split(at::cat({x, x}, 0), 4, 0);
  });
  x.fill_(3);
  graph.replay();
  EXPECT_TRUE(are_all(y, 4));
  EXPECT_TRUE(are_all(parts.at(1), 4));
}

TEST_F(Graphs, CountersCount) {
  const at::Tensor count =
      at::zeros({}, at::TensorOptions(at::kLong).device(kGpu));
  DeviceGraph graph(kGpu, [&] { at::Tensor(count) += 1; });
  for (int i = 0; i < 3; ++i) graph.replay();
  EXPECT_EQ(count.item<std::int64_t>(), 3);
}

/// A matrix product takes its shapes from memory that holds nothing yet.
TEST_F(Graphs, BackwardsAreCaptured) {
  const at::Tensor x = at::ones({3, 4}, kGpu);
  const at::Tensor w = at::full({4, 2}, 0.5, kGpu).requires_grad_();
  at::Tensor y;
  DeviceGraph forward(kGpu, [&] { y = at::relu(at::mm(x, w)); });
  at::Tensor gradient;
  const at::Tensor signal = at::ones({3, 2}, kGpu);
  DeviceGraph backward(kGpu, [&] {
    gradient = torch::autograd::grad({y}, {w}, {signal}).at(0);
  });
  for (const double value : {1.0, 2.0}) {
    x.fill_(value);
    forward.replay();
    backward.replay();
    EXPECT_TRUE(are_all(y.detach(), 2 * value));
    EXPECT_TRUE(are_all(gradient, 3 * value));
  }
}

/// The places of maxima are read in a graph that is captured before the other
/// has been replayed.
TEST_F(Graphs, OneGoesOnFromWhatAnotherWillCompute) {
  const at::Tensor x =
      at::arange(16, at::kFloat).reshape({1, 1, 4, 4}).to(kGpu);
  const at::Tensor leaf = x.detach().requires_grad_();
  at::Tensor y, gradient;
  DeviceGraph forward(kGpu, [&] { y = at::max_pool2d(leaf, {2, 2}); });
  DeviceGraph backward(kGpu, [&] {
    gradient = torch::autograd::grad({y}, {leaf}, {at::ones_like(y)}).at(0);
  });
  forward.replay();
  backward.replay();
  EXPECT_EQ(gradient.cpu().flatten().nonzero().numel(), 4);
  EXPECT_EQ(gradient.cpu().flatten()[15].item<float>(), 1);
}

TEST_F(Graphs, KernelsOfOurOwnAreReplayed) {
  if (!has_cuda_ipc(kGpu)) GTEST_SKIP() << "built with nvcc";
  const at::Tensor mask = at::zeros({1000}, kGpu);
  const at::Tensor drawn = at::zeros({1000}, kGpu);
  fill_philox_mask(drawn, 0.5, 7);
  DeviceGraph graph(kGpu, [&] { fill_philox_mask(mask, 0.5, 7); });
  EXPECT_TRUE(are_all(mask, 0));
  graph.replay();
  EXPECT_TRUE(mask.cpu().equal(drawn.cpu()));
}

/// Memory that was released in the capture is used again there, as CUDA's is.
TEST_F(Graphs, MemoryOfAGraphStaysAsLongAsTheGraph) {
  const at::Tensor x = on_gpu(1);
  at::Tensor last;
  const std::int64_t before = counts().live_bytes;
  {
    DeviceGraph graph(kGpu, [&] {
      last = x;
      for (int i = 0; i < 10; ++i) last = last + 1;
    });
    EXPECT_LE(counts().live_bytes - before, 3 * 4096);
    last = at::Tensor();
    EXPECT_GT(counts().live_bytes, before);
    for (int i = 0; i < 3; ++i) graph.replay();
  }
  EXPECT_EQ(counts().live_bytes, before);
}

TEST_F(Graphs, AReplayWithoutAnOrderIsReported) {
  const at::Tensor x = on_gpu(1);
  at::Tensor sum;
  DeviceGraph graph(kGpu, [&] { sum = x + 1; });
  {
    const c10::StreamGuard on(arriving());
    x.add_(1);
  }
  EXPECT_FALSE(take_reports().empty());  // x was made in another stream
  graph.replay();
  EXPECT_THAT(take_reports(),
              ElementsAre(HasSubstr("the replay of a graph in stream")));
  order(arriving(), sluice::computing_on(kGpu));
  order(sluice::computing_on(kGpu), arriving());
  graph.replay();
}

/// An output that another stream still reads is overwritten.
TEST_F(Graphs, AReplayOverWhatIsStillReadIsReported) {
  const at::Tensor x = on_gpu(1);
  at::Tensor sum;
  DeviceGraph graph(kGpu, [&] { sum = x + 1; });
  graph.replay();
  order(sluice::computing_on(kGpu), leaving());
  at::Tensor host = pinned(0);
  {
    const c10::StreamGuard on(leaving());
    host.copy_(sum, /*non_blocking=*/true);
  }
  graph.replay();
  EXPECT_THAT(take_reports(),
              ElementsAre(HasSubstr("what a copy to the host in stream")));
  order(leaving(), sluice::computing_on(kGpu));
}

TEST_F(Graphs, MemoryThatIsGoneFailsAReplay) {
  at::Tensor x = on_gpu(1);
  DeviceGraph graph(kGpu, [&] { x.add_(1); });
  x = at::Tensor();
  EXPECT_THROW(graph.replay(), c10::Error);
}

struct RefusedWork {
  const char* name;
  std::function<void(const at::Tensor&)> work;
};
const RefusedWork kRefused[] = {
    {"Item", [](const at::Tensor& x) { x.sum().item<double>(); }},
    {"ToTheHost", [](const at::Tensor& x) { x.cpu(); }},
    {"FromTheHost",
     [](const at::Tensor& x) { x.add_(at::ones({1000}).to(kGpu)); }},
    {"Nonzero", [](const at::Tensor& x) { at::nonzero(x); }},
    {"Mask", [](const at::Tensor& x) { x.index({x.gt(0)}); }},
    {"Random", [](const at::Tensor& x) { x.uniform_(); }},
    {"PinnedMemory", [](const at::Tensor&) { pinned(0); }},
    {"WaitOfStream",
     [](const at::Tensor&) { sluice::computing_on(kGpu).synchronize(); }},
    {"EventOfAnotherStream",
     [](const at::Tensor&) { order(leaving(), sluice::computing_on(kGpu)); }},
    {"EventForAnotherStream",
     [](const at::Tensor&) { order(sluice::computing_on(kGpu), leaving()); }},
    {"AnotherCapture",
     [](const at::Tensor&) { const DeviceGraph inner(kGpu, [] {}); }},
};

class RefusedInGraphs : public SimulatedGpu,
                        public testing::WithParamInterface<RefusedWork> {};

TEST_P(RefusedInGraphs, AsByCuda) {
  const at::Tensor x = on_gpu(1);
  EXPECT_THAT(refusal_of([&] { GetParam().work(x); }), HasSubstr("CUDA error"));
  // The stream is free for the next capture.
  EXPECT_EQ(refusal_of([&] { x.add_(1); }), "");
}

INSTANTIATE_TEST_SUITE_P(Of, RefusedInGraphs, testing::ValuesIn(kRefused),
                         [](const auto& info) { return info.param.name; });

TEST_F(Graphs, TheDefaultStreamIsNotCaptured) {
  auto graph = at::create_graph_impl(kGpu.type());
  ASSERT_NE(graph, nullptr);
  EXPECT_THROW(graph->capture_begin(), c10::Error);
  EXPECT_THROW(graph->replay(), c10::Error);
}

}  // namespace sluice::simcuda::graphs_test
