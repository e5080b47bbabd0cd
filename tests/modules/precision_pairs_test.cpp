// Every model, layer and loss in every precision: it trains, or is refused in
// words. tests/experiments/runs/precision_test.cpp has an LSTM on a processor
// without the instructions.
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/blocks/loss.h"
#include "lib/tensors/precision.h"
#include "modules/layer_types.h"
#include "modules/lstm.h"
#include "tests/modules/build.h"

namespace sluice::precision_pairs_test {

constexpr Precision kPrecisions[] = {Precision::fp32, Precision::bf16};

const SampleSpec kImages = {{3, 32, 32}, 4};
const SampleSpec kPixels = {{1, 28, 28}, 4};
const SampleSpec kTexts = {{8}, 11, /*is_text=*/true};

enum class Answer : std::uint8_t { trained, refused };

/// Two turns of two samples; throws what a layer throws.
void train(const Model& model, Precision precision) {
  Block block = make_block(model, /*seed=*/1);
  for (std::int64_t batch = 0; batch < 2; ++batch) {
    Tensors outputs;
    {
      const PrecisionScope scope(precision);
      outputs = block.forward({samples(model, 2)}, {.batch = batch});
    }
    const at::Tensor loss = outputs.front().to(at::kFloat).square().mean();
    ASSERT_TRUE(std::isfinite(loss.item<double>()));
    loss.backward();
    const at::NoGradGuard no_grad;
    for (const auto& [name, parameter] : block.parameters()) {
      if (!parameter.grad().defined()) continue;
      parameter.variable_data().sub_(parameter.grad(), 1e-3);
      at::Tensor(parameter).mutable_grad().reset();
    }
  }
}

/// A refusal is a UserError with a text.
Answer try_model(std::string_view name, const ConfigNode& options,
                 const SampleSpec& sample, Precision precision) {
  try {
    const Model model = build_model(name, options, sample);
    train(model, precision);
    return Answer::trained;
  } catch (const UserError& error) {
    EXPECT_GT(std::string_view(error.what()).size(), 10U);
    return Answer::refused;
  }
}

TEST(PrecisionPairs, EveryModelTrainsInEveryPrecisionOnSomeData) {
  for (const ModelRow& row : models())
    for (const Precision precision : kPrecisions) {
      int trained = 0;
      for (const SampleSpec& sample : {kImages, kPixels, kTexts})
        if (trained == 0 &&
            try_model(row.name, {}, sample, precision) == Answer::trained)
          ++trained;
      // Options, or a head: the outputs of ff_mlp are no logits.
      const bool wants_more = row.name == "layers" ||
                              row.name == "torchscript" || row.name == "ff_mlp";
      EXPECT_EQ(trained, wants_more ? 0 : 1) << row.name;
    }
}

/// A list of layers with one of that type behind what makes its input.
ConfigNode list_with(const LayerRow& row) {
  const auto layer = [](std::string_view type) {
    return ConfigNode{.value = ConfigNode::Table{
                          {"type", ConfigNode{.value = std::string(type)}}}};
  };
  ConfigNode::Array layers;
  if (row.make.takes == kTakesPlaces || row.make.takes == kTakesTokens)
    layers.push_back(layer("embedding"));
  else if ((row.make.takes & kTakesMap) != 0 && row.name != "conv")
    layers.push_back(layer("conv"));
  else
    layers.push_back(layer("flatten"));
  if (row.name == "conv") layers.clear();
  if (row.name != "embedding") layers.push_back(layer(row.name));
  ConfigNode last = layer("linear");
  last.set("outputs", ConfigNode{.value = std::int64_t{4}});
  layers.push_back(last);
  ConfigNode options;
  options.set("layer", ConfigNode{.value = std::move(layers)});
  return options;
}

TEST(PrecisionPairs, EveryLayerTrainsOrIsRefusedInEveryPrecision) {
  std::ptrdiff_t trained = 0;
  for (const LayerRow& row : layer_types())
    for (const Precision precision : kPrecisions) {
      const bool is_of_text =
          row.make.takes == kTakesPlaces || row.make.takes == kTakesTokens;
      const SampleSpec& sample = is_of_text ? kTexts : kPixels;
      const Answer answer =
          try_model("layers", list_with(row), sample, precision);
      if (precision == Precision::fp32)
        trained += answer == Answer::trained ? 1 : 0;
    }
  // The others want options of their own, or another input.
  EXPECT_GE(trained, 4);
}

TEST(PrecisionPairs, EveryLossTakesTheOutputsOfEveryPrecision) {
  for (const LossRow& row : losses())
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      Fields none(nullptr, "loss");
      const Loss loss = row.make(none).training;
      const at::Tensor outputs =
          at::randn({6, 3}).to(type).requires_grad_(true);
      const at::Tensor value =
          loss(outputs, at::tensor({0, 1, 2, 0, 1, 0}, at::kLong));
      value.backward();
      EXPECT_TRUE(at::isfinite(outputs.grad()).all().item<bool>()) << row.name;
    }
}

TEST(PrecisionPairs, LstmGivesBf16WithAndWithoutTheInstructions) {
  const Model model = build_model("lstm", {}, kTexts);
  Block block = make_block(model, /*seed=*/1);
  const PrecisionScope scope(Precision::bf16);
  const at::Tensor outputs = block.forward({samples(model, 2)}, Pass{}).front();
  EXPECT_EQ(outputs.scalar_type(), at::kBFloat16);
}

}  // namespace sluice::precision_pairs_test
