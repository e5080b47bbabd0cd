#include "experiments/runs/text_sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include "experiments/runs/evaluation.h"
#include "lib/base/error.h"
#include "lib/tensors/precision.h"

namespace sluice {
namespace {

using Tokens = std::vector<std::int64_t>;

Tokens tokens_of_prompt(const std::string& prompt,
                        const std::string& alphabet) {
  if (prompt.empty()) {
    const auto line_end = alphabet.find('\n');
    return {line_end == alphabet.npos ? 0
                                      : static_cast<std::int64_t>(line_end)};
  }
  Tokens tokens;
  for (const char byte : prompt) {
    const auto token = alphabet.find(byte);
    if (token == alphabet.npos)
      throw UserError(
          "--prompt: the text that the model has learned has no byte {:#04x} "
          "('{}'); leave it out",
          static_cast<unsigned char>(byte),
          static_cast<unsigned char>(byte) < 0x80 ? std::string(1, byte) : "?");
    tokens.push_back(static_cast<std::int64_t>(token));
  }
  return tokens;
}

/// The last `context` of them, [1, T].
at::Tensor last_tokens(const Tokens& tokens, std::int64_t context) {
  const std::int64_t count = std::min(std::ssize(tokens), context);
  at::Tensor inputs = at::empty({1, count}, at::kLong);
  std::copy(tokens.end() - count, tokens.end(),
            inputs.mutable_data_ptr<std::int64_t>());
  return inputs;
}

/// What the model says of the next token.
std::vector<double> next_logits(AssembledModel& model,
                                const Experiment& experiment,
                                const at::Tensor& inputs) {
  const PrecisionScope precision(experiment.precision);
  const Pass pass = {.seed = experiment.seed, .training = false};
  const at::Tensor logits = model.forward({inputs}, pass).front();
  SLUICE_CHECK(logits.dim() == 3 && logits.size(1) == inputs.size(1),
               "logits of {} dimensions for a text", logits.dim());
  const at::Tensor last =
      logits.select(1, -1).flatten().to(at::kDouble).contiguous();
  const double* begin = last.const_data_ptr<double>();
  return {begin, begin + last.numel()};
}

void check_sampling(const Experiment& experiment,
                    const TextSampling& sampling) {
  if (experiment.data == nullptr || experiment.data->alphabet.empty() ||
      experiment.model.layers.back().output.size() != 2)
    throw UserError(
        "the run's model is none of texts: only one that says the next token, "
        "such as gpt or lstm, can be sampled from");
  if (!(sampling.temperature >= 0) || std::isinf(sampling.temperature))
    throw UserError("--temperature {}: give 0 or more", sampling.temperature);
  if (sampling.top_k < 0 || sampling.length < 1)
    throw UserError(
        "--top-k {} --length {}: give a --top-k of 0 or more, and a --length "
        "of 1 or more",
        sampling.top_k, sampling.length);
}

}  // namespace

std::int64_t draw_token(std::span<const double> logits, double temperature,
                        std::int64_t top_k, KeyedRandom& random) {
  Tokens order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto logit_of = [&](std::int64_t token) {
    return logits[static_cast<std::size_t>(token)];
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) {
                     return logit_of(a) > logit_of(b);
                   });
  if (temperature == 0) return order.front();
  if (top_k > 0 && top_k < std::ssize(order))
    order.resize(static_cast<std::size_t>(top_k));
  std::vector<double> weights;
  weights.reserve(order.size());
  for (const std::int64_t token : order)
    weights.push_back(
        std::exp((logit_of(token) - logit_of(order.front())) / temperature));
  double left =
      random.uniform() * std::accumulate(weights.begin(), weights.end(), 0.0);
  for (std::size_t i = 0; i < order.size(); ++i) {
    left -= weights[i];
    if (left < 0) return order[i];
  }
  return order.back();  // rounding
}

void sample_text(const Experiment& experiment, const std::string& weights,
                 const TextSampling& sampling,
                 const std::function<void(char)>& tell) {
  check_sampling(experiment, sampling);
  const std::string& alphabet = experiment.data->alphabet;
  Tokens tokens = tokens_of_prompt(sampling.prompt, alphabet);
  const c10::NoGradGuard no_grad;
  AssembledModel model = load_model(experiment, weights);
  KeyedRandom random(random_key(
      {static_cast<std::uint64_t>(sampling.seed), key_part("sampled text")}));
  const std::int64_t context = experiment.data->sample.shape.at(0);
  for (std::int64_t i = 0; i < sampling.length; ++i) {
    const std::vector<double> logits =
        next_logits(model, experiment, last_tokens(tokens, context));
    tokens.push_back(
        draw_token(logits, sampling.temperature, sampling.top_k, random));
    tell(alphabet.at(static_cast<std::size_t>(tokens.back())));
  }
}

}  // namespace sluice
