// Vision Transformer (Dosovitskiy et al. 2021, arXiv:2010.11929): a linear map
// of square patches, learned positions, Transformer layers with the norms
// before their parts, a last norm and a linear layer on the class token or on
// the mean of the tokens. Entries of the list: the patches, each Transformer
// layer, the rest. Weights begin as in DeiT (Touvron et al. 2021,
// arXiv:2012.12877): normal with deviation 0.02, biases 0; those of the patches
// with sqrt(1 / fan in), as in the authors' code. Deviations from that code:
// the last layer doesn't begin at zero, and there is no dropout between the two
// layers of an MLP.
#include <memory>

#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "modules/models.h"
#include "modules/tokens.h"

namespace sluice {
namespace {

using at::Tensor;

struct VitOptions {
  std::int64_t patch = 4;
  std::int64_t layers = 6;
  TransformerOptions transformer = {.width = 192,
                                    .heads = 3,
                                    .tanh_gelu = false,
                                    .causal = false,
                                    .norm_epsilon = 1e-6};
  TokenPooling pooling = TokenPooling::first;

  void describe(Fields& fields) {
    fields.key("patch", patch,
               {.text = "height and width of a patch, a divisor of the image's",
                .unit = "pixels",
                .min = 1});
    fields.key("layers", layers, {.text = "Transformer layers", .min = 1});
    fields.key("width", transformer.width,
               {.text = "width of a token; a multiple of heads", .min = 1});
    fields.key("heads", transformer.heads,
               {.text = "heads of the attention", .min = 1});
    fields.key("dropout", transformer.dropout,
               {.text = "probability of dropping an element of the tokens, of "
                        "the attention weights and of what each part of a "
                        "layer adds",
                .min = 0,
                .max = 0.99});
    fields.key(
        "pool", pooling,
        {{"class_token", TokenPooling::first}, {"mean", TokenPooling::mean}},
        {.text = "what is classified: a learned token before those of "
                 "the patches, or the mean of the patches' tokens"});
    check_heads(transformer, fields);
  }

  bool has_class_token() const { return pooling == TokenPooling::first; }
};

double vit_deviation(std::string_view name, const Tensor& weight) {
  return name == "patches.weight" ? fan_in_deviation(name, weight) : 0.02;
}

/// [N, C, H, W] -> tokens [N, T, width], of which the first may be the class
/// token.
class VitEmbedding final : public Layer {
 public:
  VitEmbedding(const VitOptions& options, const PatchGrid& grid,
               std::int64_t places)
      : patches_(patch_projection(grid, options.transformer.width)),
        position_(register_parameter(
            "position", at::zeros({places, options.transformer.width}))),
        dropout_(std::make_shared<Dropout>(options.transformer.dropout)) {
    register_module("patches", patches_);
    register_module("dropout", dropout_);
    if (options.has_class_token())
      class_token_ = register_parameter(
          "class_token", at::zeros({1, options.transformer.width}));
  }

  void initialise(std::uint64_t key) override {
    initialise_normal(*this, key, vit_deviation);
  }

  Tensors forward(const Tensors& inputs, const Pass& pass) override {
    Tensor tokens = tokens_of(patches_(inputs.front()));
    if (class_token_.defined())
      tokens =
          at::cat({class_token_.expand({tokens.size(0), 1, -1}), tokens}, 1);
    return dropout_->forward({tokens + position_},
                             member_pass(pass, "dropout"));
  }

 private:
  torch::nn::Conv2d patches_;
  Tensor position_;     // [T, width]
  Tensor class_token_;  // [1, width]
  std::shared_ptr<Dropout> dropout_;
};

LayerSpec vit_embedding(const VitOptions& options, const PatchGrid& grid) {
  const std::int64_t width = options.transformer.width;
  const std::int64_t places = grid.count + (options.has_class_token() ? 1 : 0);
  return {
      .name = fmt::format("patches {}x{}, {} tokens of {}", grid.size,
                          grid.size, places, width),
      .make =
          [=] { return std::make_shared<VitEmbedding>(options, grid, places); },
      .flops =
          patch_flops(grid, width) + 2 * static_cast<double>(places * width),
      .output = {places, width}};
}

LayerSpec vit_layer(const TransformerOptions& parts, std::int64_t places) {
  return {
      .name = fmt::format("transformer {}, {} heads", parts.width, parts.heads),
      .make =
          [parts] {
            return std::make_shared<TransformerLayer>(parts, /*depth=*/0);
          },
      .flops = transformer_flops(places, parts.width),
      .output = {places, parts.width}};
}

Model make_vit(const VitOptions& options, const SampleSpec& sample) {
  const PatchGrid grid = patch_grid(sample, options.patch, "vit");
  const TransformerOptions& parts = options.transformer;
  Model model;
  model.sample = sample;
  model.layers.push_back(vit_embedding(options, grid));
  const std::int64_t places = model.layers.front().output.front();
  for (std::int64_t i = 0; i < options.layers; ++i)
    model.layers.push_back(vit_layer(parts, places));
  model.layers.push_back(token_classifier({.width = parts.width,
                                           .classes = sample.classes,
                                           .pooling = options.pooling,
                                           .norm_epsilon = parts.norm_epsilon,
                                           .deviation = vit_deviation},
                                          places));
  return model;
}

}  // namespace

MakeModel vit(Fields& fields) {
  VitOptions options;
  options.describe(fields);
  return
      [options](const SampleSpec& sample) { return make_vit(options, sample); };
}

}  // namespace sluice
