// Low-rank adapters of linear layers, against their formula in plain LibTorch.
#include "lib/blocks/adapters.h"

#include <memory>
#include <string>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lib/blocks/block.h"

namespace sluice::adapters_test {

constexpr AdapterOptions kAdapter = {.rank = 3, .alpha = 6};
constexpr std::uint64_t kKey = 7;

class ThreeLinear final : public Layer {
 public:
  ThreeLinear() {
    for (FusedLinear* each : {&first_, &second_, &third_})
      (*each)->weight.set_requires_grad(false);
    register_module("first", first_);
    register_module("second", second_);
    register_module("third", third_);
  }
  Tensors forward(const Tensors& inputs, const Pass& /*pass*/) override {
    return {third_(at::relu(second_(at::relu(first_(inputs[0])))))};
  }

 private:
  FusedLinear first_ = FusedLinear(5, 4);
  FusedLinear second_ = FusedLinear(4, 4);
  FusedLinear third_ = FusedLinear(4, 4);
};

std::shared_ptr<Layer> adapted() {
  auto layer = std::make_shared<ThreeLinear>();
  layer->initialise(kKey);
  for (const auto& [name, linear] : linear_layers_in(*layer))
    linear->adapt(kAdapter);
  begin_adapters(*layer, kKey);
  return layer;
}

/// Gives the second factors of all adapters values.
void train_a_little(Layer& layer) {
  const torch::NoGradGuard no_grad;
  for (const auto& [name, linear] : linear_layers_in(layer))
    linear->lora_b.copy_(torch::linspace(-0.5, 0.5, linear->lora_b.numel())
                             .view_as(linear->lora_b));
}

at::Tensor inputs() {
  return torch::linspace(-1, 1, 30).view({6, 5});
}

TEST(Adapters, AddNothingAtFirst) {
  ThreeLinear plain;
  plain.initialise(kKey);
  const auto layer = adapted();
  EXPECT_TRUE(layer->forward({inputs()}, {})[0].equal(
      plain.forward({inputs()}, {})[0]));
  train_a_little(*layer);
  EXPECT_FALSE(layer->forward({inputs()}, {})[0].equal(
      plain.forward({inputs()}, {})[0]));
}

TEST(Adapters, BeginByTheirKeyAndNameAlone) {
  const auto layer = adapted();
  const auto again = adapted();
  const auto factors = linear_layers_in(*layer);
  ASSERT_EQ(factors.size(), 3U);
  EXPECT_EQ(factors[1].first, "second");
  EXPECT_TRUE(factors[0].second->lora_a.equal(
      linear_layers_in(*again)[0].second->lora_a));
  EXPECT_FALSE(factors[1].second->lora_a.equal(factors[2].second->lora_a));
  EXPECT_GT(factors[0].second->lora_a.abs().max().item<double>(), 0);
}

TEST(Adapters, HaveTheOutputsAndGradientsOfTheirFormula) {
  const auto layer = adapted();
  train_a_little(*layer);
  torch::OrderedDict<std::string, at::Tensor> p;
  for (const auto& item : layer->named_parameters())
    p.insert(item.key(), item.value().detach().clone().requires_grad_());
  const auto linear = [&](const std::string& name, const at::Tensor& x) {
    const double scale = kAdapter.alpha / static_cast<double>(kAdapter.rank);
    const at::Tensor weight =
        p[name + ".weight"] +
        scale * p[name + ".lora_b"].mm(p[name + ".lora_a"]);
    return x.mm(weight.t()) + p[name + ".bias"];
  };
  const at::Tensor expected = linear(
      "third", at::relu(linear("second", at::relu(linear("first", inputs())))));
  const at::Tensor found = layer->forward({inputs()}, {})[0];
  EXPECT_TRUE(found.allclose(expected, 1e-5, 1e-6));
  expected.square().sum().backward();
  found.square().sum().backward();
  for (const auto& item : layer->named_parameters()) {
    SCOPED_TRACE(item.key());
    EXPECT_EQ(item.value().grad().defined(), !item.key().ends_with("weight"));
    if (item.value().grad().defined()) {
      EXPECT_TRUE(
          item.value().grad().allclose(p[item.key()].grad(), 1e-4, 1e-5));
    }
  }
}

TEST(Adapters, MergedIntoTheirWeightsHaveTheSameOutputs) {
  const auto layer = adapted();
  train_a_little(*layer);
  NamedTensors tensors;
  for (const auto& item : layer->named_parameters())
    tensors.emplace_back(item.key(), item.value());
  ThreeLinear plain;
  const NamedTensors merged = with_merged_adapters(tensors, kAdapter);
  ASSERT_EQ(merged.size(), plain.named_parameters().size());
  {
    const torch::NoGradGuard no_grad;
    for (const auto& [name, tensor] : merged)
      plain.named_parameters()[name].copy_(tensor);
  }
  EXPECT_TRUE(plain.forward({inputs()}, {})[0].allclose(
      layer->forward({inputs()}, {})[0], 1e-5, 1e-6));
}

Block frozen_block() {
  return {1, 0, [] { return Layers{adapted()}; }, MemoryFormat::contiguous};
}

TEST(FrozenParameters, AreNoneOfThoseThatTrain) {
  const Block block = frozen_block();
  for (const auto& [name, parameter] : block.parameters())
    EXPECT_FALSE(name.ends_with("weight")) << name;
  ASSERT_EQ(block.frozen().size(), 3U);
  EXPECT_EQ(block.frozen()[0].first, "layers.0.first.weight");
  EXPECT_EQ(block.parameters().size(), 9U);
  EXPECT_EQ(block.weights().size(), 12U);
}

TEST(FrozenParameters, AreSharedWithTwins) {
  const Block block = frozen_block();
  const torch::NoGradGuard no_grad;
  block.frozen()[0].second.fill_(3);
  const Block twin = block.twin();
  EXPECT_TRUE(twin.frozen()[0].second.eq(3).all().item<bool>());
  block.frozen()[0].second.fill_(4);
  EXPECT_TRUE(twin.frozen()[0].second.eq(4).all().item<bool>());
  EXPECT_FALSE(
      twin.parameters()[0].second.is_alias_of(block.parameters()[0].second));
}

}  // namespace sluice::adapters_test
