// A language model in the style of GPT-2 (Radford et al. 2019; Vaswani et al.
// 2017, arXiv:1706.03762): token and learned position embeddings, Transformer
// layers with the norms before their parts, a last norm and a linear layer to
// the vocabulary. Entries of the list: the embeddings, each Transformer layer,
// the rest. Context and vocabulary are those of the data.
//
// With `tied` the embedding's weight is the last layer's too, though the two
// may be in different blocks: it travels up beside the activations, and its
// gradient comes down with theirs.
#include <memory>
#include <string>
#include <utility>

#include <ATen/ops/linear.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/modules/embedding.h>

#include "lib/base/error.h"
#include "lib/blocks/fused_linear.h"
#include "modules/models.h"
#include "modules/normal_weights.h"
#include "modules/transformer.h"

namespace sluice {
namespace {

using at::Tensor;

double gpt2_deviation(std::string_view /*name*/, const Tensor& /*weight*/) {
  return 0.02;
}

struct GptOptions {
  std::int64_t layers = 4;
  TransformerOptions transformer;
  bool tied = false;

  void describe(Fields& fields) {
    fields.key("layers", layers, {.text = "Transformer layers", .min = 1});
    fields.key(
        "width", transformer.width,
        {.text = "width of the embedding; a multiple of heads", .min = 1});
    fields.key("heads", transformer.heads,
               {.text = "heads of the attention", .min = 1});
    fields.key("dropout", transformer.dropout,
               {.text = "probability of dropping an element of the embeddings, "
                        "of the attention weights and of what each part of a "
                        "layer adds",
                .min = 0,
                .max = 0.99});
    fields.key(
        "tied", tied,
        {.text = "one weight for the token embedding and the last layer; "
                 "wants backprop at every boundary"});
    fields.key("bias", transformer.bias,
               {.text = "whether linear layers and norms have biases"});
    fields.key("activation", transformer.tanh_gelu,
               {{"gelu_tanh", true}, {"gelu", false}},
               {.text = "activation of the MLP: GELU, as is or by its tanh "
                        "approximation"});
    check_heads(transformer, fields);
  }
};

/// Tokens [N, T] int64 -> [N, T, C]; tied also a copy of the token weight
/// [V, C]: a copy, because an update would write what others still read.
class Embeddings final : public Layer {
 public:
  Embeddings(const GptOptions& options, std::int64_t vocabulary,
             std::int64_t context)
      : tied_(options.tied),
        token_(vocabulary, options.transformer.width),
        position_(context, options.transformer.width),
        dropout_(std::make_shared<Dropout>(options.transformer.dropout)) {
    register_module("token", token_);
    register_module("position", position_);
    register_module("dropout", dropout_);
  }

  void initialise(std::uint64_t key) override {
    initialise_normal(*this, key, gpt2_deviation);
  }

  Tensors forward(const Tensors& inputs, const Pass& pass) override {
    const Tensor& tokens = inputs.front();
    const Tensor& positions = position_->weight;  // [context, C]
    if (tokens.size(1) > positions.size(0)) {
      throw UserError("a text of {} tokens; the model was made for up to {}",
                      tokens.size(1), positions.size(0));
    }
    const Tensor sum = token_(tokens) + positions.slice(0, 0, tokens.size(1));
    Tensors outputs = dropout_->forward({sum}, member_pass(pass, "dropout"));
    if (tied_) outputs.push_back(token_->weight.clone());
    return outputs;
  }

 private:
  bool tied_;
  torch::nn::Embedding token_;
  torch::nn::Embedding position_;
  std::shared_ptr<Dropout> dropout_;
};

/// [N, T, C] -> logits [N, T, V], by its own weight or the one that came along.
class VocabularyLayer final : public Layer {
 public:
  VocabularyLayer(const GptOptions& options, std::int64_t vocabulary)
      : norm_(std::make_shared<LayerNorm>(options.transformer.width,
                                          options.transformer.bias)) {
    register_module("norm", norm_);
    if (options.tied) return;
    vocabulary_ = FusedLinear(
        torch::nn::LinearOptions(options.transformer.width, vocabulary)
            .bias(false));
    register_module("vocabulary", vocabulary_);
  }

  void initialise(std::uint64_t key) override {
    initialise_normal(*this, key, gpt2_deviation);
  }

  Tensors forward(const Tensors& inputs, const Pass& /*pass*/) override {
    SLUICE_CHECK(inputs.size() == (vocabulary_ ? 1 : 2),
                 "the last layer of gpt takes no tuple of {}", inputs.size());
    const Tensor normed = norm_->forward(inputs.front());
    return {vocabulary_ ? vocabulary_(normed) : at::linear(normed, inputs[1])};
  }

 private:
  std::shared_ptr<LayerNorm> norm_;
  FusedLinear vocabulary_ = nullptr;
};

/// Multiply-adds for a text, as transformer_flops() counts.
struct Costs {
  double places;
  double width;
  double vocabulary;

  double embeddings() const { return 2 * places * width; }
  double last() const { return places * (width * vocabulary + 2 * width); }
};

Costs costs_of(const GptOptions& options, const SampleSpec& sample) {
  return {.places = static_cast<double>(sample.shape[0]),
          .width = static_cast<double>(options.transformer.width),
          .vocabulary = static_cast<double>(sample.classes)};
}

void check_is_text(const SampleSpec& sample) {
  if (!sample.is_text || sample.shape.size() != 1 || sample.shape[0] < 1) {
    throw UserError(
        "gpt takes texts, the data are samples of shape [{}]; use a data set "
        "of texts, or another model (`sluice list models`)",
        fmt::join(sample.shape, ", "));
  }
  if (sample.classes < 1)
    throw UserError("gpt needs a vocabulary, not {} tokens", sample.classes);
}

LayerSpec embeddings(const GptOptions& options, const SampleSpec& sample) {
  const std::int64_t width = options.transformer.width;
  const std::int64_t context = sample.shape[0];
  const std::int64_t vocabulary = sample.classes;
  return {
      .name = fmt::format("embeddings {}+{}->{}", vocabulary, context, width),
      .make =
          [=] {
            return std::make_shared<Embeddings>(options, vocabulary, context);
          },
      .flops = costs_of(options, sample).embeddings(),
      .output = {context, width}};
}

LayerSpec transformer_layer(const GptOptions& options,
                            const SampleSpec& sample) {
  const TransformerOptions& parts = options.transformer;
  return {
      .name = fmt::format("transformer {}, {} heads", parts.width, parts.heads),
      .make =
          [parts, depth = options.layers] {
            return std::make_shared<TransformerLayer>(parts, depth);
          },
      .flops = transformer_flops(sample.shape[0], parts.width),
      .output = {sample.shape[0], parts.width}};
}

LayerSpec vocabulary_layer(const GptOptions& options,
                           const SampleSpec& sample) {
  const std::int64_t vocabulary = sample.classes;
  return {.name = fmt::format("norm, vocabulary {}->{}{}",
                              options.transformer.width, vocabulary,
                              options.tied ? " (tied)" : ""),
          .make =
              [=] {
                return std::make_shared<VocabularyLayer>(options, vocabulary);
              },
          .flops = costs_of(options, sample).last(),
          .output = {sample.shape[0], vocabulary}};
}

Model make_gpt(const GptOptions& options, const SampleSpec& sample) {
  check_is_text(sample);
  Model model;
  model.sample = sample;
  model.layers.push_back(embeddings(options, sample));
  for (std::int64_t i = 0; i < options.layers; ++i)
    model.layers.push_back(transformer_layer(options, sample));
  model.layers.push_back(vocabulary_layer(options, sample));
  if (options.tied) {
    model.needs_backprop =
        "with tied = true the first and the last layer of gpt share a weight, "
        "whose gradient comes down through every boundary";
  }
  return model;
}

}  // namespace

MakeModel gpt(Fields& fields) {
  GptOptions options;
  options.describe(fields);
  return
      [options](const SampleSpec& sample) { return make_gpt(options, sample); };
}

}  // namespace sluice
