// Runs whose codecs learn, against a plain loop that computes the same by
// autograd.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "experiments/data/order/sample_source.h"
#include "tests/experiments/helpers/training.h"
#include "tests/oracles/plain_mlp.h"

namespace sluice::learned_codecs_test {

using Weights = std::map<std::string, at::Tensor>;

/// What comes of what is sent, with a graph.
using Channel = std::function<at::Tensor(const at::Tensor& sent)>;

/// A network of three linear layers, cut above the first one, with a low rank
/// at the cut where there are weights for it.
at::Tensor plain_loss(Weights& weights, const Batch& batch,
                      const Channel& channel) {
  const auto linear = [&](const at::Tensor& x, const std::string& layer) {
    return at::linear(x, weights.at(layer + ".linear.weight"),
                      weights.at(layer + ".linear.bias"));
  };
  at::Tensor h = at::relu(linear(batch.inputs.flatten(1), "layers.0"));
  const bool is_narrow = weights.count("layers.0.cut_encoder.weight") > 0;
  if (is_narrow) h = h.matmul(weights.at("layers.0.cut_encoder.weight").t());
  h = channel(h);
  if (is_narrow)
    h = h.matmul(weights.at("layers.1.cut_decoder.weight").t()) +
        weights.at("layers.1.cut_decoder.bias");
  return at::cross_entropy_loss(
      linear(at::relu(linear(h, "layers.1")), "layers.2"), batch.labels);
}

NamedTensors plainly_trained(const Experiment& experiment,
                             const NamedTensors& first,
                             const Channel& channel) {
  Weights weights;
  for (const auto& [name, tensor] : first)
    weights[name] = tensor.detach().clone().requires_grad_();
  SampleSource source(
      experiment.data->train.samples(),
      {.batch_size = experiment.batch_size, .seed = experiment.seed});
  for (std::int64_t turn = 0; turn < experiment.length.turns; ++turn) {
    plain_loss(weights, source.batch(turn), channel).backward();
    const at::NoGradGuard no_grad;
    for (auto& [name, tensor] : weights) {
      tensor.sub_(tensor.grad(), plain_mlp::kRate);
      tensor.mutable_grad().reset();
    }
  }
  NamedTensors all;
  for (const auto& [name, tensor] : weights)
    all.emplace_back(name, tensor.detach());
  return all;
}

/// How far the run's weights are from the plain loop's after 30 turns, and how
/// far they have come.
struct Distances {
  double to_plain = 0;
  double travelled = 0;
};

Distances distances(const std::string& codec, const Channel& channel) {
  Training training(small_experiment(
      "turns = 30\nblocks = ['0', '1-']\nmodel = {hidden = [24, 20]}\n"
      "optimizer = {lr = 0.0625}\nboundary = {codec = " +
      codec + "}\n"));
  const NamedTensors first = copies_of(training.weights());
  training.train();
  const NamedTensors last = copies_of(training.weights());
  return {distance(last, plainly_trained(training.experiment, first, channel)),
          distance(last, first)};
}

at::Tensor as_it_is(const at::Tensor& sent) {
  return sent;
}

/// Vectors of four numbers, each the nearest of 32 that learn by moving
/// averages, a number at a time; gradients pass.
Channel plain_codebook(double decay) {
  struct Book {
    at::Tensor entries;
    at::Tensor counts;
    at::Tensor sums;
  };
  constexpr std::int64_t kSize = 32;
  auto book = std::make_shared<Book>();
  return [=](const at::Tensor& sent) {
    const at::Tensor vectors = sent.detach().view({-1, 4});
    if (!book->entries.defined()) {
      Tensors first;
      for (std::int64_t i = 0; i < kSize; ++i)
        first.push_back(vectors[i * vectors.size(0) / kSize]);
      book->entries = at::stack(first);
      book->counts = at::full({kSize}, static_cast<double>(vectors.size(0)) /
                                           static_cast<double>(kSize));
      book->sums = book->entries * book->counts.unsqueeze(1);
    }
    const at::Tensor places =
        at::cdist(vectors, book->entries, 2, /*compute_mode=*/2).argmin(1);
    const at::Tensor came = book->entries.index_select(0, places).view_as(sent);
    const at::Tensor choices = at::one_hot(places, kSize).to(at::kFloat);
    book->counts = decay * book->counts + (1 - decay) * choices.sum(0);
    book->sums = decay * book->sums + (1 - decay) * choices.t().matmul(vectors);
    const double mean = book->counts.mean().item<double>();
    for (std::int64_t i = 0; i < kSize; ++i) {
      if (book->counts[i].item<double>() < mean / 100) {
        book->counts[i] = mean;
        book->sums[i] = vectors[i * vectors.size(0) / kSize] * mean;
      }
    }
    book->entries = book->sums / book->counts.unsqueeze(1);
    return sent + (came - sent.detach());
  };
}

TEST(CodecsThatLearn, ALowRankHasTheWeightsOfItsLayersOver30Turns) {
  const Distances low = distances("{name = 'low_rank', rank = 6}", as_it_is);
  EXPECT_LT(low.to_plain, 1e-5);
  EXPECT_GT(low.travelled, 1e-2);
}

TEST(CodecsThatLearn, ACodebookHasItsWeightsOver30Turns) {
  const std::string codec =
      "{up = {name = 'codebook', size = 32, dim = 4, decay = 0.9}, down = "
      "'none'}";
  EXPECT_LT(distances(codec, plain_codebook(0.9)).to_plain, 1e-4);
  EXPECT_GT(distances(codec, plain_codebook(0.5)).to_plain, 1e-3);
  EXPECT_GT(distances(codec, as_it_is).to_plain, 1e-3);
}

}  // namespace sluice::learned_codecs_test
