#include "experiments/runs/uses/text_sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include "experiments/runs/uses/evaluation.h"
#include "lib/base/error.h"
#include "lib/tensors/precision.h"

namespace sluice {
namespace {

using Tokens = std::vector<std::int64_t>;

/// Tokens of a line's end; token 0 where the tokenizer has none.
Tokens tokens_of_line_end(const Tokenizer& tokenizer) {
  try {
    const Tokens tokens = tokenizer.encode("\n");
    return tokens.empty() ? Tokens{0} : tokens;
  } catch (const UserError&) {
    return {0};
  }
}

Tokens tokens_of_prompt(const std::string& prompt, const Tokenizer& tokenizer) {
  if (prompt.empty()) return tokens_of_line_end(tokenizer);
  try {
    const Tokens tokens = tokenizer.encode(prompt);
    // A prompt of spaces has no tokens where the tokenizer leaves spaces out.
    return tokens.empty() ? tokens_of_line_end(tokenizer) : tokens;
  } catch (const UserError& error) {
    throw UserError("--prompt: {}", error.what());
  }
}

/// The last `context` tokens, [1, T].
at::Tensor last_tokens(const Tokens& tokens, std::int64_t context) {
  const std::int64_t count = std::min(std::ssize(tokens), context);
  at::Tensor inputs = at::empty({1, count}, at::kLong);
  std::copy(tokens.end() - count, tokens.end(),
            inputs.mutable_data_ptr<std::int64_t>());
  return inputs;
}

/// The model's logits of the next token.
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
  if (experiment.data == nullptr || experiment.data->tokenizer == nullptr ||
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
  const Tokenizer& tokenizer = *experiment.data->tokenizer;
  Tokens tokens = tokens_of_prompt(sampling.prompt, tokenizer);
  const c10::NoGradGuard no_grad;
  AssembledModel model = load_model(experiment, weights, "sluice sample");
  KeyedRandom random(random_key(
      {static_cast<std::uint64_t>(sampling.seed), key_part("sampled text")}));
  const std::int64_t context = experiment.data->sample.shape.at(0);
  for (std::int64_t i = 0; i < sampling.length; ++i) {
    const std::vector<double> logits =
        next_logits(model, experiment, last_tokens(tokens, context));
    tokens.push_back(
        draw_token(logits, sampling.temperature, sampling.top_k, random));
    for (const char byte : tokenizer.text_of(tokens.back())) tell(byte);
  }
}

}  // namespace sluice
