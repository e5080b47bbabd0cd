// Runs whose codecs remember something, against a plain loop that computes the
// same by autograd.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "experiments/data/order/sample_source.h"
#include "tests/experiments/helpers/training.h"
#include "tests/oracles/plain_mlp.h"

namespace sluice::stateful_codecs_test {

/// What goes up and down a boundary, as the other side has it.
struct PlainBoundary {
  std::function<at::Tensor(const at::Tensor& h, const at::Tensor& samples)> up;
  std::function<at::Tensor(const at::Tensor& gradient)> down;
};

at::Tensor as_it_is(const at::Tensor& tensor) {
  return tensor;
}

/// The k largest magnitudes of each row.
at::Tensor largest(const at::Tensor& rows, std::int64_t k) {
  const at::Tensor places = std::get<1>(rows.abs().topk(k, 1));
  return at::zeros_like(rows).scatter(1, places, rows.gather(1, places));
}

/// top_k with error feedback, of rows of one batch size.
PlainBoundary plain_top_k(std::int64_t k, bool has_feedback) {
  auto held = std::make_shared<at::Tensor>();
  return {.up = [k](const at::Tensor& h,
                    const at::Tensor&) { return largest(h, k); },
          .down =
              [=](const at::Tensor& gradient) {
                if (!held->defined()) *held = at::zeros_like(gradient);
                const at::Tensor wanted =
                    has_feedback ? gradient + *held : gradient;
                const at::Tensor sent = largest(wanted, k);
                *held = wanted - sent;
                return sent;
              }};
}

/// A difference in `levels` steps of the largest of its row, sample by sample.
PlainBoundary plain_delta(double levels) {
  auto kept = std::make_shared<std::map<std::int64_t, at::Tensor>>();
  return {.up =
              [=](const at::Tensor& h, const at::Tensor& samples) {
                Tensors rows;
                for (std::int64_t i = 0; i < h.size(0); ++i) {
                  at::Tensor& mine = (*kept)[samples[i].item<std::int64_t>()];
                  if (mine.defined()) {
                    const at::Tensor change = h[i] - mine;
                    const double step =
                        change.abs().max().item<double>() / levels;
                    if (step > 0) mine = mine + (change / step).round() * step;
                  } else {
                    mine = h[i].clone();
                  }
                  rows.push_back(mine);
                }
                return at::stack(rows);
              },
          .down = as_it_is};
}

/// The weights of a network of three linear layers, cut above the first one,
/// after the experiment's turns of SGD.
Tensors plainly_trained(const Experiment& experiment, const Tensors& first,
                        const PlainBoundary& boundary) {
  Tensors weights;
  for (const at::Tensor& tensor : first)
    weights.push_back(tensor.clone().requires_grad_());
  SampleSource source(experiment.data->train.samples(),
                      {.batch_size = experiment.batch_size,
                       .seed = experiment.seed,
                       .sample_ids = true});
  for (std::int64_t turn = 0; turn < experiment.length.turns; ++turn) {
    const Batch batch = source.batch(turn);
    const at::Tensor h =
        at::relu(at::linear(batch.inputs.flatten(1), weights[0], weights[1]));
    const at::Tensor came = boundary.up(h.detach(), batch.ids).requires_grad_();
    const at::Tensor hidden =
        at::relu(at::linear(came, weights[2], weights[3]));
    const at::Tensor loss = at::cross_entropy_loss(
        at::linear(hidden, weights[4], weights[5]), batch.labels);
    Tensors gradients = torch::autograd::grad(
        {loss}, {weights[2], weights[3], weights[4], weights[5], came});
    const at::Tensor back = boundary.down(gradients.back());
    gradients.pop_back();
    const Tensors below =
        torch::autograd::grad({h}, {weights[0], weights[1]}, {back});
    gradients.insert(gradients.begin(), below.begin(), below.end());
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < weights.size(); ++i)
      weights[i].sub_(gradients[i], plain_mlp::kRate);
  }
  return plain_mlp::copied(weights);
}

/// 30 turns, three epochs.
std::string lines_with(const std::string& codec) {
  return "turns = 30\nblocks = ['0', '1-']\nmodel = {hidden = [24, 20]}\n"
         "optimizer = {lr = 0.0625}\nboundary = {codec = " +
         codec + "}\n";
}

/// How far the run's weights are from the plain loop's.
double distance_from(const std::string& codec, const PlainBoundary& boundary) {
  Training training(small_experiment(lines_with(codec)));
  const Tensors first = plain_mlp::weights_in(training);
  training.train();
  return distance(
      plain_mlp::named(plain_mlp::weights_in(training)),
      plain_mlp::named(plainly_trained(training.experiment, first, boundary)));
}

const PlainBoundary kPlain = {
    .up = [](const at::Tensor& h, const at::Tensor&) { return h.clone(); },
    .down = as_it_is};

/// A layer that masks all but the largest: autograd goes back through the mask.
PlainBoundary plain_mask(std::int64_t k) {
  auto mask = std::make_shared<at::Tensor>();
  return {.up =
              [=](const at::Tensor& h, const at::Tensor&) {
                const at::Tensor places = std::get<1>(h.abs().topk(k, 1));
                *mask = at::zeros_like(h).scatter(1, places, 1);
                return h * *mask;
              },
          .down = [=](const at::Tensor& gradient) { return gradient * *mask; }};
}

TEST(CodecsOfPlainAutograd, TopKIsAMaskOver30Turns) {
  const std::string codec = "{name = 'top_k', ratio = 0.2}";
  EXPECT_LT(distance_from(codec, plain_mask(5)), 1e-5);
  EXPECT_GT(distance_from(codec, plain_top_k(5, true)), 1e-3);
}

TEST(CodecsOfPlainAutograd, TopKWithFeedbackHasItsWeightsOver30Turns) {
  const std::string codec =
      "{name = 'top_k', ratio = 0.2, mask_gradients = false}";
  EXPECT_LT(distance_from(codec, plain_top_k(5, true)), 1e-5);
  EXPECT_GT(distance_from(codec, plain_top_k(5, false)), 1e-3);
  EXPECT_GT(distance_from(codec, kPlain), 1e-3);
}

TEST(CodecsOfPlainAutograd, TopKWithoutFeedbackHasItsWeightsOver30Turns) {
  EXPECT_LT(
      distance_from("{name = 'top_k', ratio = 0.2, mask_gradients = false, "
                    "error_feedback = false}",
                    plain_top_k(5, false)),
      1e-5);
}

TEST(CodecsOfPlainAutograd, DeltaHasItsWeightsOver30Turns) {
  const std::string codec = "{up = {name = 'delta', bits = 4}, down = 'none'}";
  EXPECT_LT(distance_from(codec, plain_delta(7)), 1e-5);
  EXPECT_GT(distance_from(codec, kPlain), 1e-4);
  EXPECT_LT(distance_from("{up = {name = 'delta', bits = 8}, down = 'none'}",
                          plain_delta(127)),
            1e-5);
}

}  // namespace sluice::stateful_codecs_test
