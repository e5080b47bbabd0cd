// A language model in the style of LLaMA (Touvron et al. 2023,
// arXiv:2302.13971, section 2.2): token embeddings; layers with root mean
// square norms before their parts (Zhang and Sennrich 2019, arXiv:1910.07467),
// rotary positions (Su et al. 2021, arXiv:2104.09864) and a SwiGLU (Shazeer
// 2020, arXiv:2002.05202); a last norm and a linear layer to the vocabulary. No
// biases, no dropout. Heads of queries may share those of keys and values
// (grouped-query attention: Ainslie et al. 2023, arXiv:2305.13245). Entries of
// the list: the embedding, each layer, the rest.
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/silu.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/modules/embedding.h>

#include "lib/base/error.h"
#include "lib/blocks/fused_linear.h"
#include "modules/models.h"
#include "modules/normal_weights.h"

namespace sluice {
namespace {

using at::Tensor;

constexpr double kDeviation = 0.02;

struct LlamaOptions {
  std::int64_t layers = 4;
  std::int64_t width = 128;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 0;  // 0: heads
  std::int64_t hidden = 0;    // 0: hidden_width()
  double rotary_base = 10000;
  double epsilon = 1e-5;

  std::int64_t head_width() const { return width / heads; }
  std::int64_t key_heads() const { return kv_heads > 0 ? kv_heads : heads; }
  std::int64_t key_width() const { return key_heads() * head_width(); }
  /// 8/3 of the width, as many weights as an MLP of four times the width has,
  /// rounded up to a multiple of 32.
  std::int64_t hidden_width() const {
    constexpr std::int64_t kMultiple = 32;
    if (hidden > 0) return hidden;
    const std::int64_t wanted = (8 * width + 2) / 3;
    return (wanted + kMultiple - 1) / kMultiple * kMultiple;
  }

  void describe(Fields& fields) {
    fields.key("layers", layers, {.text = "Transformer layers", .min = 1});
    fields.key(
        "width", width,
        {.text = "width of the embedding; a multiple of 2 heads", .min = 2});
    fields.key("heads", heads, {.text = "heads of the attention", .min = 1});
    fields.key("kv_heads", kv_heads,
               {.text = "heads of keys and values, which divide heads: each is "
                        "shared by heads / kv_heads; 0: as many as heads",
                .min = 0});
    fields.key("hidden", hidden,
               {.text = "width of the SwiGLU; 0: 8/3 of width, rounded up to a "
                        "multiple of 32",
                .min = 0});
    fields.key("rotary_base", rotary_base,
               {.text = "base of the angles by which positions turn queries "
                        "and keys",
                .min = 1});
    fields.key("epsilon", epsilon,
               {.text = "added to the mean square in norms", .min = 0});
    check(fields);
  }

 private:
  void check(const Fields& fields) const {
    if (width % (2 * heads) != 0)
      fields.reject("width", fmt::format("{} is no multiple of 2 heads = {}",
                                         width, 2 * heads));
    if (heads % key_heads() != 0)
      fields.reject("kv_heads", fmt::format("{} doesn't divide heads = {}",
                                            kv_heads, heads));
  }
};

/// x / root(mean(x x) + epsilon) over the last dimension, times a weight.
class RmsNorm final : public torch::nn::Module {
 public:
  RmsNorm(std::int64_t width, double epsilon)
      : width_(width),
        epsilon_(epsilon),
        weight_(register_parameter("weight", at::ones({width}))) {}

  Tensor forward(const Tensor& x) {
    return at::rms_norm(x, {width_}, weight_, epsilon_);
  }

 private:
  std::int64_t width_;
  double epsilon_;
  Tensor weight_;
};

FusedLinear linear(std::int64_t inputs, std::int64_t outputs) {
  return FusedLinear(torch::nn::LinearOptions(inputs, outputs).bias(false));
}

/// Cosines and sines [T, d / 2] of the angles t / base^(2 i / d).
class Rotation {
 public:
  Rotation(std::int64_t places, std::int64_t width, double base,
           const at::TensorOptions& options) {
    const at::TensorOptions exact = options.dtype(at::kDouble);
    const Tensor rates =
        at::pow(at::full({}, base, exact),
                at::arange(0, width, 2, exact) / -static_cast<double>(width));
    const Tensor angles = at::outer(at::arange(places, exact), rates);
    cosines_ = angles.cos().to(options.dtype());
    sines_ = angles.sin().to(options.dtype());
  }

  /// x: [N, heads, T, d]. Element i turns with element i + d / 2, as in the
  /// weights that are published in Hugging Face's format.
  Tensor of(const Tensor& x) const {
    const std::vector<Tensor> halves = x.chunk(2, -1);
    return at::cat({halves[0] * cosines_ - halves[1] * sines_,
                    halves[1] * cosines_ + halves[0] * sines_},
                   -1);
  }

 private:
  Tensor cosines_;
  Tensor sines_;
};

/// Causal self-attention: [N, T, C] -> [N, T, C].
class RotaryAttention final : public torch::nn::Module {
 public:
  explicit RotaryAttention(const LlamaOptions& options)
      : options_(options),
        q_(linear(options.width, options.width)),
        k_(linear(options.width, options.key_width())),
        v_(linear(options.width, options.key_width())),
        projection_(linear(options.width, options.width)) {
    register_module("q", q_);
    register_module("k", k_);
    register_module("v", v_);
    register_module("projection", projection_);
  }

  Tensor forward(const Tensor& x) {
    const Tensor q = split(q_(x), options_.heads);
    const Rotation rotation(x.size(1), options_.head_width(),
                            options_.rotary_base, q.options());
    const Tensor k = rotation.of(split(k_(x), options_.key_heads()));
    const Tensor v = split(v_(x), options_.key_heads());
    const Tensor mixed = at::scaled_dot_product_attention(
        rotation.of(q), shared(k), shared(v), /*attn_mask=*/{},
        /*dropout_p=*/0.0, /*is_causal=*/true);
    return projection_(mixed.transpose(1, 2).reshape(x.sizes()));
  }

 private:
  /// [N, T, heads d] -> [N, heads, T, d].
  Tensor split(const Tensor& x, std::int64_t heads) const {
    return x.view({x.size(0), x.size(1), heads, options_.head_width()})
        .transpose(1, 2);
  }

  /// Each head as often as queries share it.
  Tensor shared(const Tensor& x) const {
    const std::int64_t times = options_.heads / options_.key_heads();
    return times == 1 ? x : x.repeat_interleave(times, 1);
  }

  LlamaOptions options_;
  FusedLinear q_;
  FusedLinear k_;
  FusedLinear v_;
  FusedLinear projection_;
};

/// down(silu(gate(x)) up(x)).
class SwiGlu final : public torch::nn::Module {
 public:
  explicit SwiGlu(const LlamaOptions& options)
      : gate_(linear(options.width, options.hidden_width())),
        up_(linear(options.width, options.hidden_width())),
        down_(linear(options.hidden_width(), options.width)) {
    register_module("gate", gate_);
    register_module("up", up_);
    register_module("down", down_);
  }

  Tensor forward(const Tensor& x) { return down_(at::silu(gate_(x)) * up_(x)); }

 private:
  FusedLinear gate_;
  FusedLinear up_;
  FusedLinear down_;
};

class TokenEmbedding final : public Layer {
 public:
  TokenEmbedding(std::int64_t vocabulary, std::int64_t width)
      : token_(vocabulary, width) {
    register_module("token", token_);
  }

  void initialise(std::uint64_t key) override {
    initialise_normal(
        *this, key, [](std::string_view, const Tensor&) { return kDeviation; });
  }

  Tensors forward(const Tensors& inputs, const Pass& /*pass*/) override {
    return {token_(inputs.front())};
  }

 private:
  torch::nn::Embedding token_;
};

/// h + attention(norm(h)), then h + mlp(norm(h)): [N, T, C] -> [N, T, C].
class LlamaLayer final : public Layer {
 public:
  explicit LlamaLayer(const LlamaOptions& options)
      : depth_(static_cast<double>(options.layers)),
        norm1_(std::make_shared<RmsNorm>(options.width, options.epsilon)),
        attention_(std::make_shared<RotaryAttention>(options)),
        norm2_(std::make_shared<RmsNorm>(options.width, options.epsilon)),
        mlp_(std::make_shared<SwiGlu>(options)) {
    register_module("norm1", norm1_);
    register_module("attention", attention_);
    register_module("norm2", norm2_);
    register_module("mlp", mlp_);
  }

  /// As of GPT-2: what writes to the residual stream begins smaller.
  void initialise(std::uint64_t key) override {
    initialise_normal(*this, key, [this](std::string_view name, const Tensor&) {
      const bool is_residual =
          name.ends_with("projection.weight") || name.ends_with("down.weight");
      return is_residual ? kDeviation / std::sqrt(2 * depth_) : kDeviation;
    });
  }

  Tensors forward(const Tensors& inputs, const Pass& /*pass*/) override {
    Tensor h = inputs.front();
    h = h + attention_->forward(norm1_->forward(h));
    return {h + mlp_->forward(norm2_->forward(h))};
  }

 private:
  double depth_;
  std::shared_ptr<RmsNorm> norm1_;
  std::shared_ptr<RotaryAttention> attention_;
  std::shared_ptr<RmsNorm> norm2_;
  std::shared_ptr<SwiGlu> mlp_;
};

/// [N, T, C] -> logits [N, T, V].
class LastLayer final : public Layer {
 public:
  LastLayer(const LlamaOptions& options, std::int64_t vocabulary)
      : norm_(std::make_shared<RmsNorm>(options.width, options.epsilon)),
        vocabulary_(linear(options.width, vocabulary)) {
    register_module("norm", norm_);
    register_module("vocabulary", vocabulary_);
  }

  void initialise(std::uint64_t key) override {
    initialise_normal(
        *this, key, [](std::string_view, const Tensor&) { return kDeviation; });
  }

  Tensors forward(const Tensors& inputs, const Pass& /*pass*/) override {
    return {vocabulary_(norm_->forward(inputs.front()))};
  }

 private:
  std::shared_ptr<RmsNorm> norm_;
  FusedLinear vocabulary_;
};

/// Multiply-adds of a layer for a text of so many places, as
/// transformer_flops() counts.
double layer_flops(const LlamaOptions& options, double places) {
  const auto width = static_cast<double>(options.width);
  const auto keys = static_cast<double>(options.key_width());
  const auto hidden = static_cast<double>(options.hidden_width());
  const double products = 2 * width * width + 2 * width * keys +
                          3 * width * hidden + 2 * places * width;
  const double others = 2 * 2 * width + (width + keys) + 2 * hidden + 2 * width;
  return places * (products + others);
}

Model make_llama(const LlamaOptions& options, const SampleSpec& sample) {
  if (!sample.is_text || sample.shape.size() != 1 || sample.shape[0] < 1)
    throw UserError(
        "llama takes texts, the data are samples of shape [{}]; use a data set "
        "of texts, or another model (`sluice list models`)",
        fmt::join(sample.shape, ", "));
  if (sample.classes < 1)
    throw UserError("llama needs a vocabulary, not {} tokens", sample.classes);
  const std::int64_t context = sample.shape[0];
  const std::int64_t vocabulary = sample.classes;
  const std::int64_t width = options.width;
  const auto places = static_cast<double>(context);
  Model model;
  model.sample = sample;
  model.layers.push_back(
      {.name = fmt::format("embedding {}->{}", vocabulary, width),
       .make =
           [=] { return std::make_shared<TokenEmbedding>(vocabulary, width); },
       .flops = places * static_cast<double>(width),
       .output = {context, width}});
  for (std::int64_t i = 0; i < options.layers; ++i)
    model.layers.push_back(
        {.name = fmt::format("llama {}, {} heads, {} of keys", width,
                             options.heads, options.key_heads()),
         .make = [options] { return std::make_shared<LlamaLayer>(options); },
         .flops = layer_flops(options, places),
         .output = {context, width}});
  model.layers.push_back(
      {.name = fmt::format("norm, vocabulary {}->{}", width, vocabulary),
       .make = [=] { return std::make_shared<LastLayer>(options, vocabulary); },
       .flops = places * static_cast<double>(width * vocabulary + 2 * width),
       .output = {context, vocabulary}});
  return model;
}

}  // namespace

MakeModel llama(Fields& fields) {
  LlamaOptions options;
  options.describe(fields);
  return [options](const SampleSpec& sample) {
    return make_llama(options, sample);
  };
}

}  // namespace sluice
