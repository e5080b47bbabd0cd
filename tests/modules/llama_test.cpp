// The model llama beside its formulas, written out with a rotation of complex
// numbers, sums of squares and a loop over heads.
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "tests/modules/build.h"

namespace sluice::llama_test {

using at::Tensor;

constexpr std::int64_t kContext = 12;
constexpr std::int64_t kVocabulary = 11;
constexpr std::int64_t kLayers = 3;
constexpr std::int64_t kHeads = 4;
const SampleSpec kText = {{kContext}, kVocabulary, /*is_text=*/true};

Model llama(std::vector<std::pair<std::string, ConfigNode::Value>> more = {},
            const SampleSpec& sample = kText) {
  ConfigNode options = table(
      {{"layers", kLayers}, {"width", std::int64_t{16}}, {"heads", kHeads}});
  for (auto& [key, value] : more)
    options.set(key, ConfigNode{.value = std::move(value)});
  return build_model("llama", options, sample);
}

class Plain {
 public:
  explicit Plain(const NamedTensors& weights, double base = 10000)
      : base_(base) {
    for (const auto& [name, weight] : weights)
      weights_[name] = weight.detach().to(at::kDouble).requires_grad_();
  }

  Tensor logits(const Tensor& tokens) {
    Tensor h = of(0, "token").index_select(0, tokens.flatten());
    h = h.view({tokens.size(0), tokens.size(1), -1});
    for (std::int64_t layer = 1; layer <= kLayers; ++layer) {
      h = h + attention(layer, norm(h, of(layer, "norm1")));
      const Tensor x = norm(h, of(layer, "norm2"));
      const Tensor gate = x.matmul(of(layer, "mlp.gate").t());
      const Tensor hidden =
          gate * gate.sigmoid() * x.matmul(of(layer, "mlp.up").t());
      h = h + hidden.matmul(of(layer, "mlp.down").t());
    }
    return norm(h, of(kLayers + 1, "norm"))
        .matmul(of(kLayers + 1, "vocabulary").t());
  }

  std::map<std::string, Tensor>& weights() { return weights_; }

 private:
  Tensor of(std::int64_t layer, const std::string& name) {
    return weights_.at("layers." + std::to_string(layer) + "." + name +
                       ".weight");
  }

  static Tensor norm(const Tensor& x, const Tensor& weight) {
    return x / (x.square().mean(-1, true) + 1e-5).sqrt() * weight;
  }

  /// x: [T, d] of one head; elements i and i + d / 2 are a complex number.
  Tensor turned(const Tensor& x) const {
    const std::int64_t half = x.size(1) / 2;
    Tensor turns = at::empty({x.size(0), half}, at::kComplexDouble);
    for (std::int64_t t = 0; t < x.size(0); ++t)
      for (std::int64_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(t) *
                             std::pow(base_, -static_cast<double>(i) /
                                                 static_cast<double>(half));
        turns[t][i] = c10::complex<double>(std::cos(angle), std::sin(angle));
      }
    const Tensor numbers = at::complex(x.slice(1, 0, half).contiguous(),
                                       x.slice(1, half).contiguous()) *
                           turns;
    return at::cat({at::real(numbers), at::imag(numbers)}, 1);
  }

  Tensor attention(std::int64_t layer, const Tensor& x) {
    const Tensor q = x.matmul(of(layer, "attention.q").t());
    const Tensor k = x.matmul(of(layer, "attention.k").t());
    const Tensor v = x.matmul(of(layer, "attention.v").t());
    const std::int64_t width = q.size(2) / kHeads;
    const std::int64_t sharing = kHeads / (k.size(2) / width);
    const Tensor later = at::ones({x.size(1), x.size(1)}, at::kBool).triu(1);
    std::vector<Tensor> samples;
    for (std::int64_t n = 0; n < x.size(0); ++n) {
      std::vector<Tensor> heads;
      for (std::int64_t head = 0; head < kHeads; ++head) {
        const std::int64_t of_keys = head / sharing * width;
        const Tensor scores =
            turned(q[n].narrow(1, head * width, width))
                .matmul(turned(k[n].narrow(1, of_keys, width)).t()) /
            std::sqrt(static_cast<double>(width));
        heads.push_back(
            scores.masked_fill(later, -std::numeric_limits<double>::infinity())
                .softmax(-1)
                .matmul(v[n].narrow(1, of_keys, width)));
      }
      samples.push_back(at::cat(heads, 1));
    }
    return at::stack(samples).matmul(of(layer, "attention.projection").t());
  }

  double base_;
  std::map<std::string, Tensor> weights_;
};

class LlamaOracle : public testing::TestWithParam<std::int64_t> {};

TEST_P(LlamaOracle, HasTheLogitsAndGradientsOfItsFormulas) {
  const Model model = llama({{"kv_heads", GetParam()}});
  Plain plain(initial_weights(model));
  const Tensor outputs = plain.logits(samples(model));
  outputs.square().sum().backward();
  for (const std::vector<std::int64_t>& starts :
       {std::vector<std::int64_t>{0}, {0, 1, 2, 3, 4}}) {
    const Outcome found = run_blocks(model, starts, {});
    EXPECT_TRUE(
        at::allclose(found.outputs.to(at::kDouble), outputs, 1e-5, 1e-6));
    EXPECT_EQ(found.gradients.size(), plain.weights().size());
    for (const auto& [name, gradient] : found.gradients)
      EXPECT_TRUE(at::allclose(gradient.to(at::kDouble),
                               plain.weights().at(name).grad(), 1e-3, 1e-5))
          << name << " in " << starts.size() << " blocks";
  }
}

INSTANTIATE_TEST_SUITE_P(HeadsOfKeys, LlamaOracle, testing::Values(0, 1, 2));

TEST(Llama, CutsHaveTheSameBits) {
  const Model model = llama({{"kv_heads", std::int64_t{2}}});
  const Outcome whole = run_blocks(model, {0}, {});
  const Outcome cut = run_blocks(model, {0, 1, 3}, {});
  EXPECT_TRUE(at::equal(whole.outputs, cut.outputs));
  for (std::size_t i = 0; i < whole.gradients.size(); ++i)
    EXPECT_TRUE(at::equal(whole.gradients[i].second, cut.gradients[i].second))
        << whole.gradients[i].first;
}

TEST(Llama, TheBaseOfTheAnglesCounts) {
  const Model model = llama({{"rotary_base", 100.0}});
  const Tensor outputs = run_blocks(model, {0}, {}).outputs.to(at::kDouble);
  const NamedTensors weights = initial_weights(model);
  EXPECT_TRUE(at::allclose(outputs, Plain(weights, 100).logits(samples(model)),
                           1e-5, 1e-6));
  EXPECT_FALSE(
      at::allclose(outputs, Plain(weights).logits(samples(model)), 1e-5, 1e-6));
}

TEST(Llama, APlaceSeesNoneAfterIt) {
  const Model model = llama();
  const Tensor tokens = samples(model);
  const Tensor before = make_block(model, 1).forward({tokens}, {}).at(0);
  const Tensor other = tokens.clone();
  other.select(1, 7).fill_(3);
  tokens.select(1, 7).fill_(4);
  const Tensor left = make_block(model, 1).forward({tokens}, {}).at(0);
  const Tensor right = make_block(model, 1).forward({other}, {}).at(0);
  EXPECT_TRUE(at::equal(left.slice(1, 0, 7), right.slice(1, 0, 7)));
  EXPECT_FALSE(at::allclose(left.slice(1, 8), right.slice(1, 8)));
}

/// LLaMA's sum.
std::int64_t parameters_of(std::int64_t layers, std::int64_t width,
                           std::int64_t keys, std::int64_t hidden,
                           std::int64_t vocabulary) {
  return 2 * vocabulary * width + width +
         layers * (2 * width * width + 2 * width * keys + 3 * width * hidden +
                   2 * width);
}

TEST(Llama, HasTheParametersOfItsSizes) {
  EXPECT_EQ(parameter_count(llama()),
            parameters_of(kLayers, 16, 16, 64, kVocabulary))
      << "8/3 of 16, rounded up to 64";
  EXPECT_EQ(parameter_count(llama(
                {{"kv_heads", std::int64_t{2}}, {"hidden", std::int64_t{24}}})),
            parameters_of(kLayers, 16, 8, 24, kVocabulary));
  EXPECT_EQ(parameters_of(32, 4096, 4096, 11008, 32000), 6'738'415'616)
      << "of LLaMA 7B";
}

}  // namespace sluice::llama_test
