// Every weight view by itself: a block of two factors, h = 5 (2 x), whose
// weights become 3 and 7 between the forward of a batch and its backward.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "lib/base/error.h"
#include "lib/weights/block_weights.h"
#include "lib/weights/weight_view.h"

namespace sluice::weight_views_test {

class Factor final : public Layer {
 public:
  explicit Factor(float value)
      : weight_(register_parameter("weight", at::full({1}, value))) {}
  Tensors forward(const Tensors& inputs, const Pass& /*pass*/) override {
    return {inputs[0] * weight_};
  }

 private:
  at::Tensor weight_;
};

struct TwoFactors {
  std::unique_ptr<WeightView> view(std::string_view name) {
    return find_row(weight_views(), name, "weight view")
        .make.make({.block = block, .update = update});
  }
  /// A second one, which goes on from what the first would save.
  std::unique_ptr<WeightView> view_restored(std::string_view name,
                                            const WeightView& first) {
    NamedTensors saved;
    first.save("views.1", saved);
    auto second = view(name);
    second->restore("views.1", SavedState(saved, "the test"));
    return second;
  }
  /// What the backward of the batch has for the factors and the input.
  std::vector<float> gradients_of(WeightView& view, Flight& flight) {
    const Graph graph = view.graph_of(flight, 1);
    Tensors leaves = graph.parameters;
    leaves.push_back(flight.inputs[0]);
    std::vector<float> values;
    for (const at::Tensor& gradient :
         torch::autograd::grad(graph.outputs, leaves))
      values.push_back(gradient.item<float>());
    return values;
  }
  void change(WeightView& view) { change_to(view, 3, 7); }
  void change_to(WeightView& view, float first, float second) {
    view.before_update(0);
    const Tensors storage = view.next_weights();
    for (std::size_t i = 0; i < storage.size(); ++i)
      at::Tensor(block.parameters()[i].second).set_data(storage[i]);
    overwrite_weights({at::full({1}, first), at::full({1}, second)}, block);
    view.after_update();
  }

  Block block = {1, 0,
                 [] {
                   return Layers{std::make_shared<Factor>(2.0F),
                                 std::make_shared<Factor>(5.0F)};
                 },
                 MemoryFormat::contiguous};
  UpdateChain update = {{.optimizer = {.momentum = 0.5}}, block.parameters()};
};

Flight batch_of_one() {
  Flight flight;
  flight.inputs = {at::ones({1}).requires_grad_()};
  return flight;
}

struct ViewCase {
  const char* view;
  /// Gradients of the first factor, the second, and the input.
  std::vector<float> gradients;
};

std::vector<ViewCase> views() {
  return {{"stash", {5, 2, 10}},
          {"recompute", {5, 2, 10}},
          {"mixed", {7, 2, 21}},
          {"current", {7, 3, 21}},
          {"predict", {5, 2, 10}},
          {"double_buffer", {5, 2, 10}},
          {"vertical_sync", {5, 2, 10}},
          {"extrapolate", {5, 2, 10}},
          {"double_buffer_predict", {5, 2, 10}},
          {"rebuilt", {7, 3, 21}}};  // of layers without an inverse
}

class EachView : public testing::TestWithParam<ViewCase> {};

TEST_P(EachView, GoesBackwardThroughTheWeightsThatItsNameSays) {
  TwoFactors net;
  const auto view = net.view(GetParam().view);
  Flight flight = batch_of_one();
  EXPECT_EQ(view->forward(flight)[0].item<float>(), 10);
  net.change(*view);
  EXPECT_EQ(net.gradients_of(*view, flight), GetParam().gradients);
  EXPECT_EQ(net.block.parameters()[0].second.item<float>(), 3);
}

INSTANTIATE_TEST_SUITE_P(Rows, EachView, testing::ValuesIn(views()),
                         [](const auto& info) {
                           return std::string(info.param.view);
                         });

TEST(WeightViews, EachHasItsCaseAbove) {
  ASSERT_EQ(weight_views().size(), views().size());
  for (std::size_t i = 0; i < views().size(); ++i)
    EXPECT_EQ(weight_views()[i].name, views()[i].view);
}

TEST(WeightViews, PredictGoesAlongTheVelocityForEachUpdateAhead) {
  TwoFactors net;
  Tensors gradients = {at::full({1}, 1.0), at::full({1}, 2.0)};
  net.update.apply(gradients, {.rate = 0});
  const float ahead = net.update.direction(0.1)[0].item<float>();
  EXPECT_LT(ahead, 0);
  Flight flight = batch_of_one();
  flight.updates_ahead = 2;
  flight.rate = 0.1;
  const auto view = net.view("predict");
  view->forward(flight);
  EXPECT_FLOAT_EQ(net.gradients_of(*view, flight)[1], 2 + 2 * ahead);
}

TEST(WeightViews, DoubleBufferForwardsOneUpdateBehind) {
  TwoFactors net;
  const auto view = net.view("double_buffer");
  Flight first = batch_of_one();
  view->forward(first);
  net.change(*view);
  Flight second = batch_of_one();
  second.version = 1;
  EXPECT_EQ(view->forward(second)[0].item<float>(), 10);
  Flight of_next_window = batch_of_one();
  of_next_window.version = 1;
  of_next_window.updates_ahead = 1;
  EXPECT_EQ(view->forward(of_next_window)[0].item<float>(), 21);
}

TEST(WeightViews, VerticalSyncForwardsWithTheVersionOfTheEntry) {
  TwoFactors net;
  const auto view = net.view("vertical_sync");
  Flight first = batch_of_one();
  view->forward(first);
  net.change(*view);
  Flight second = batch_of_one();
  second.version = 1;
  EXPECT_EQ(view->forward(second)[0].item<float>(), 10);
  EXPECT_EQ(second.version, 0);
  Flight of_today = batch_of_one();
  of_today.version = 1;
  of_today.entry_version = 1;
  EXPECT_EQ(view->forward(of_today)[0].item<float>(), 21);
  Flight late = batch_of_one();
  late.version = 1;
  EXPECT_THROW(view->forward(late), InternalError);
}

TEST(WeightViews, VerticalSyncGoesOnFromACheckpoint) {
  TwoFactors net;
  const auto view = net.view("vertical_sync");
  Flight first = batch_of_one();
  view->forward(first);
  net.change(*view);
  const auto again = net.view_restored("vertical_sync", *view);
  Flight second = batch_of_one();
  second.version = 1;
  EXPECT_EQ(again->forward(second)[0].item<float>(), 10);
}

/// Weights of a pipe that is three updates deep, and move by the same each.
TEST(WeightViews, ExtrapolateIsExactForWeightsOfConstantVelocity) {
  TwoFactors net;
  const auto view = net.view("extrapolate");
  const auto weight = [&](int version, int factor) {
    return factor == 0 ? 2 + 0.5F * static_cast<float>(version)
                       : 5 - 0.25F * static_cast<float>(version);
  };
  std::map<int, Flight> flights;
  int version = 0;
  for (int turn = 0; turn < 12; ++turn) {
    flights[turn] = batch_of_one();
    flights[turn].version = version;
    view->forward(flights[turn]);
    if (turn < 3) continue;
    Flight& due = flights[turn - 3];
    const Graph graph = view->graph_of(due, version);
    for (int factor = 0; factor < 2; ++factor)
      EXPECT_FLOAT_EQ(
          graph.parameters[static_cast<std::size_t>(factor)].item<float>(),
          weight(static_cast<int>(due.version), factor))
          << turn;
    ++version;
    net.change_to(*view, weight(version, 0), weight(version, 1));
  }
}

TEST(WeightViews, ExtrapolateGoesOnFromACheckpoint) {
  TwoFactors net;
  const auto view = net.view("extrapolate");
  Flight flight = batch_of_one();
  view->forward(flight);
  net.change(*view);
  const auto again = net.view_restored("extrapolate", *view);
  Flight restored = batch_of_one();
  again->restore(restored, {at::full({1}, 2.0), at::full({1}, 5.0)});
  EXPECT_EQ(net.gradients_of(*again, restored), (std::vector<float>{5, 2, 10}));
}

TEST(WeightViews, WithoutUpdatesInBetweenRefuseOtherWeights) {
  for (const bool recompute : {false, true}) {
    TwoFactors net;
    const BlockPlan plan{.recompute = recompute};
    const auto view =
        make_weight_view(plan, {.block = net.block, .update = net.update});
    Flight flight = batch_of_one();
    EXPECT_EQ(view->forward(flight)[0].item<float>(), 10);
    EXPECT_THROW(view->graph_of(flight, 1), InternalError);
  }
}

}  // namespace sluice::weight_views_test
