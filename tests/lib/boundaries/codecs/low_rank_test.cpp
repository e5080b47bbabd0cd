#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/config.h"
#include "lib/base/error.h"
#include "lib/base/table.h"
#include "lib/blocks/layer.h"
#include "lib/boundaries/codecs/codec.h"

namespace sluice::low_rank_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Gives its inputs, times a weight of its own if there is one.
class ScaleLayer final : public Layer {
 public:
  explicit ScaleLayer(std::int64_t width) {
    if (width > 0) weight_ = register_parameter("weight", at::ones({width}));
    register_buffer("seen", at::zeros({}));
  }
  Tensors forward(const Tensors& inputs, const Pass&) override {
    was_training = is_training();
    if (!weight_.defined()) return inputs;
    return {inputs.at(0) * weight_};
  }

  bool was_training = false;

 private:
  at::Tensor weight_;
};

/// Layers on both sides of a cut, with the codec's.
struct CutModel {
  CutModel(const SampleShape& features, const ConfigNode& options,
           std::int64_t width = 0, std::uint64_t key = 1) {
    below = {.name = "below",
             .make = [=] { return std::make_shared<ScaleLayer>(width); },
             .output = features};
    above = below;
    above.name = "above";
    Fields fields(&options, "boundary.codec");
    const CodecRow& row = find_row(codecs(), "low_rank", "codec");
    codec = row.make.configure(fields, {});
    codec.add_layers(below, above, key);
  }

  std::shared_ptr<Layer> made(const LayerSpec& spec) const {
    const auto layer = spec.make();
    layer->initialise(7);
    return layer;
  }
  at::Tensor sent(const at::Tensor& x) const {
    return made(below)->forward({x}, {}).at(0);
  }
  at::Tensor received(const at::Tensor& x) const {
    return made(above)->forward({sent(x)}, {}).at(0);
  }

  LayerSpec below;
  LayerSpec above;
  BoundaryCodecs codec;
};

ConfigNode with_rank(std::int64_t rank) {
  ConfigNode node{.value = ConfigNode::Table{}};
  node.set("rank", {.value = rank});
  return node;
}

ConfigNode with_ratio(double ratio) {
  ConfigNode node{.value = ConfigNode::Table{}};
  node.set("ratio", {.value = ratio});
  return node;
}

std::vector<std::string> names_in(const Layer& layer) {
  std::vector<std::string> names;
  for (const auto& item : layer.named_parameters()) names.push_back(item.key());
  return names;
}

at::Tensor numbers(const std::vector<std::int64_t>& sizes) {
  return at::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(1));
}

TEST(LowRank, SendsThatPartOfTheChannelsRoundedUp) {
  EXPECT_THAT(CutModel({64}, with_ratio(1.0 / 16)).below.output,
              ElementsAre(4));
  EXPECT_THAT(CutModel({10, 64}, with_ratio(0.05)).below.output,
              ElementsAre(10, 4));
  EXPECT_THAT(CutModel({64, 8, 6}, with_rank(3)).below.output,
              ElementsAre(3, 8, 6));
}

TEST(LowRank, TheSpecSaysTheShapeThatIsSent) {
  EXPECT_THAT(CutModel({64}, with_rank(4)).sent(numbers({2, 64})).sizes(),
              ElementsAre(2, 4));
  EXPECT_THAT(
      CutModel({10, 64}, with_rank(4)).sent(numbers({2, 10, 64})).sizes(),
      ElementsAre(2, 10, 4));
  EXPECT_THAT(
      CutModel({64, 8, 6}, with_rank(4)).sent(numbers({2, 64, 8, 6})).sizes(),
      ElementsAre(2, 4, 8, 6));
}

TEST(LowRank, IsAnOrthogonalProjectionAtFirst) {
  const CutModel cut({24}, with_rank(5));
  const at::Tensor map = cut.received(at::eye(24));  // symmetric
  EXPECT_TRUE(map.allclose(map.t(), 0, 1e-6));
  EXPECT_TRUE(map.matmul(map).allclose(map, 0, 1e-6));
  EXPECT_NEAR(map.trace().item<double>(), 5, 1e-5);
}

TEST(LowRank, MapsHaveTheChannelsOfEachPixelProjected) {
  const at::Tensor maps = numbers({2, 24, 3, 4});
  const at::Tensor pixels =
      CutModel({24}, with_rank(5))
          .received(maps.movedim(1, -1).reshape({-1, 24}));
  EXPECT_TRUE(CutModel({24, 3, 4}, with_rank(5))
                  .received(maps)
                  .movedim(1, -1)
                  .reshape({-1, 24})
                  .allclose(pixels, 1e-5, 1e-6));
}

TEST(LowRank, OtherKeysDrawOtherProjections) {
  const auto first = CutModel({24}, with_rank(5)).received(at::eye(24));
  const auto other = CutModel({24}, with_rank(5), 0, 2).received(at::eye(24));
  EXPECT_GT((first - other).abs().max().item<double>(), 0.1);
}

TEST(LowRank, AllChannelsAddNoLayer) {
  for (const ConfigNode& all : {with_rank(24), with_ratio(1)}) {
    const CutModel cut({24}, all, 24);
    EXPECT_EQ(cut.below.name, "below");
    EXPECT_EQ(cut.above.name, "above");
    EXPECT_THAT(names_in(*cut.below.make()), ElementsAre("weight"));
    EXPECT_THAT(names_in(*cut.above.make()), ElementsAre("weight"));
  }
}

TEST(LowRank, TensorsOfTheLayersKeepTheirNames) {
  const CutModel cut({24}, with_rank(5), 24);
  const auto below = cut.below.make();
  EXPECT_THAT(names_in(*below), ElementsAre("weight", "cut_encoder.weight"));
  EXPECT_THAT(below->named_buffers().keys(), ElementsAre("seen"));
  EXPECT_THAT(names_in(*cut.above.make()),
              ElementsAre("weight", "cut_decoder.weight", "cut_decoder.bias"));
}

TEST(LowRank, TheLayerSeesWhetherItTrains) {
  const auto inner = std::make_shared<ScaleLayer>(0);
  LayerSpec below = {
      .name = "below", .make = [inner] { return inner; }, .output = {24}};
  LayerSpec above = below;
  CutModel({24}, with_rank(5)).codec.add_layers(below, above, 1);
  const auto layer = below.make();
  for (const bool on : {true, false, true}) {
    layer->train(on);
    layer->forward({at::ones({1, 24})}, {});
    EXPECT_EQ(inner->was_training, on);
  }
}

TEST(LowRank, TwoCutsMayShareALayer) {
  LayerSpec first = {.name = "first",
                     .make = [] { return std::make_shared<ScaleLayer>(0); },
                     .output = {24}};
  LayerSpec middle = first;
  LayerSpec last = first;
  const BoundaryCodecs codec = CutModel({24}, with_rank(5)).codec;
  codec.add_layers(first, middle, 1);
  codec.add_layers(middle, last, 2);
  const auto layer = middle.make();
  layer->initialise(1);
  EXPECT_THAT(names_in(*layer),
              ElementsAre("cut_decoder.weight", "cut_decoder.bias",
                          "cut_encoder.weight"));
  EXPECT_THAT(layer->forward({numbers({2, 5})}, {}).at(0).sizes(),
              ElementsAre(2, 5));
}

TEST(LowRank, CountsItsMultiplyAdds) {
  const CutModel cut({10, 64}, with_rank(4));
  EXPECT_EQ(cut.below.flops, 10 * 64 * 4);
  EXPECT_EQ(cut.above.flops, 10 * 64 * 4);
}

TEST(LowRank, RefusesMoreChannelsThanThereAre) {
  EXPECT_THAT([] { CutModel({24}, with_rank(25)); },
              ThrowsMessage<UserError>(HasSubstr("set at most 24")));
}

TEST(LowRank, RefusesSeveralTensorsAtTheCut) {
  const auto layer = CutModel({24}, with_rank(5)).below.make();
  const Tensors two = {at::ones({1, 24}), at::ones({1, 24})};
  EXPECT_THAT([&] { layer->forward(two, {}); },
              ThrowsMessage<UserError>(HasSubstr("2 cross the boundary")));
}

}  // namespace sluice::low_rank_test
