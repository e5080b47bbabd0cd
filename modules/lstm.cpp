// A recurrent language model (Hochreiter & Schmidhuber 1997; dropout where
// Zaremba et al. 2014, arXiv:1409.2329, have it: not between the steps of a
// layer): a token embedding, LSTM layers, a linear layer to the vocabulary.
// Entries of the list: the embedding, each LSTM layer, the rest. The state
// begins at zero for every text, because texts of a data set are windows in a
// random order; within a text it is back-propagated through all places.
// Vocabulary and length are those of the data. Weights of LSTM layers have
// LibTorch's names and distribution, uniform in +-1 / sqrt(width). With
// precision = "bf16" on a CPU that lacks the instructions, LSTM layers compute
// in fp32, and what they give upwards is rounded to bf16 as elsewhere.
#include "modules/lstm.h"

#include <cmath>
#include <exception>
#include <memory>
#include <tuple>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/lstm.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/rnn.h>

#include "lib/base/error.h"
#include "lib/base/random.h"
#include "lib/blocks/fused_linear.h"
#include "lib/tensors/precision.h"
#include "modules/chain.h"
#include "modules/dropout.h"
#include "modules/models.h"

namespace sluice {
namespace {

using at::Tensor;

struct LstmOptions {
  std::int64_t layers = 2;
  std::int64_t width = 128;
  double dropout = 0;

  void describe(Fields& fields) {
    fields.key("layers", layers, {.text = "LSTM layers", .min = 1});
    fields.key(
        "width", width,
        {.text = "width of the embedding and of each layer's state", .min = 1});
    fields.key("dropout", dropout,
               {.text = "probability of dropping an element of the embedding "
                        "and of what each layer gives upwards",
                .min = 0,
                .max = 0.99});
  }
};

/// [N, T, C] -> [N, T, C], with C states.
class LstmLayer final : public Layer {
 public:
  LstmLayer(std::int64_t width, double dropout)
      : lstm_(torch::nn::LSTMOptions(width, width).batch_first(true)),
        dropout_(std::make_shared<Dropout>(dropout)) {
    register_module("lstm", lstm_);
    register_module("dropout", dropout_);
  }

  /// Drawn contiguous on the CPU and then copied, as initialise_parameters()
  /// does, which has no rule for two biases.
  void initialise(std::uint64_t key) override {
    const c10::NoGradGuard no_grad;
    const double bound =
        1.0 / std::sqrt(static_cast<double>(lstm_->options.hidden_size()));
    for (const auto& item : named_parameters()) {
      Tensor parameter = item.value();
      const Tensor values =
          at::empty(parameter.sizes(),
                    at::TensorOptions().dtype(parameter.scalar_type()));
      values.uniform_(-bound, bound,
                      at::make_generator<at::CPUGeneratorImpl>(
                          random_key({key, key_part(item.key())})));
      parameter.copy_(values);
    }
  }

  Tensors forward(const Tensors& inputs, const Pass& pass) override {
    const Tensor outputs = states(inputs.front());
    return dropout_->forward({outputs}, member_pass(pass, "dropout"));
  }

 private:
  Tensor states(const Tensor& inputs) {
    const bool in_bf16 =
        inputs.is_cpu() && at::autocast::is_autocast_enabled(at::kCPU);
    if (!in_bf16 || has_bf16_lstm()) return std::get<0>(lstm_->forward(inputs));
    const FullPrecisionScope full;
    return std::get<0>(lstm_->forward(inputs.to(at::kFloat))).to(at::kBFloat16);
  }

  torch::nn::LSTM lstm_;
  std::shared_ptr<Dropout> dropout_;
};

std::shared_ptr<Layer> token_embedding(std::int64_t vocabulary,
                                       const LstmOptions& options) {
  auto chain = std::make_shared<Chain>();
  chain->add("token", torch::nn::Embedding(vocabulary, options.width));
  chain->add("dropout", std::make_shared<Dropout>(options.dropout));
  return chain;
}

std::shared_ptr<Layer> to_vocabulary(std::int64_t width,
                                     std::int64_t vocabulary) {
  auto chain = std::make_shared<Chain>();
  chain->add("vocabulary", FusedLinear(width, vocabulary));
  return chain;
}

void check_is_language(const SampleSpec& sample) {
  if (sample.is_text && sample.shape.size() == 1 && sample.shape[0] > 0 &&
      sample.classes > 0)
    return;
  throw UserError(
      "lstm takes texts, the data are samples of shape [{}]; use a data set of "
      "texts, or another model (`sluice list models`)",
      fmt::join(sample.shape, ", "));
}

Model make_lstm(const LstmOptions& options, const SampleSpec& sample) {
  check_is_language(sample);
  const std::int64_t width = options.width;
  const std::int64_t vocabulary = sample.classes;
  const SampleShape states = {sample.shape[0], width};
  const auto t = static_cast<double>(sample.shape[0]);
  const auto c = static_cast<double>(width);
  Model model;
  model.sample = sample;
  model.layers.push_back(
      {.name = fmt::format("embedding {}->{}", vocabulary, width),
       .make = [=] { return token_embedding(vocabulary, options); },
       .flops = t * c,
       .output = states});
  for (std::int64_t i = 0; i < options.layers; ++i)
    model.layers.push_back({.name = fmt::format("lstm {}", width),
                            .make =
                                [=] {
                                  return std::make_shared<LstmLayer>(
                                      width, options.dropout);
                                },
                            // Four gates of two products; their nonlinearities,
                            // and six steps on the state.
                            .flops = t * (8 * c * c + 10 * c),
                            .output = states});
  model.layers.push_back(
      {.name = fmt::format("vocabulary {}->{}", width, vocabulary),
       .make = [=] { return to_vocabulary(width, vocabulary); },
       .flops = t * c * static_cast<double>(vocabulary),
       .output = {sample.shape[0], vocabulary}});
  return model;
}

/// A training turn of the smallest LSTM; throws what LibTorch throws.
void train_in_bf16() {
  const c10::AutoGradMode gradients(true);
  const auto weight = [](at::IntArrayRef sizes) {
    return at::zeros(sizes).requires_grad_();
  };
  const Tensor inputs = weight({2, 2, 4});
  const Tensor state = at::zeros({1, 2, 4});
  const std::vector<Tensor> weights = {weight({16, 4}), weight({16, 4}),
                                       weight({16}), weight({16})};
  Tensor outputs;
  {
    const PrecisionScope bf16(Precision::bf16);
    outputs = std::get<0>(at::lstm(inputs, {state, state}, weights,
                                   /*has_biases=*/true, /*num_layers=*/1,
                                   /*dropout=*/0, /*train=*/true,
                                   /*bidirectional=*/false,
                                   /*batch_first=*/true));
  }
  const FullPrecisionScope full;
  outputs.to(at::kFloat).sum().backward();
}

}  // namespace

bool has_bf16_lstm() {
  static const bool has = [] {
    try {
      train_in_bf16();
      return true;
    } catch (const std::exception&) {  // oneDNN's own
      return false;
    }
  }();
  return has;
}

MakeModel lstm(Fields& fields) {
  LstmOptions options;
  options.describe(fields);
  return [options](const SampleSpec& sample) {
    return make_lstm(options, sample);
  };
}

}  // namespace sluice
