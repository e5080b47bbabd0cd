#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "experiments/config/experiment.h"
#include "lib/base/random.h"

namespace sluice {

/// How a text is drawn from a language model.
struct TextSampling {
  /// What the text begins with; empty: a line's end, or the first token where
  /// the data have none.
  std::string prompt = {};
  std::int64_t length = 200;  ///< tokens to be drawn
  /// Logits are divided by it; 0: the most probable token is taken.
  double temperature = 1;
  std::int64_t top_k = 0;  ///< only the most probable ones; 0: all
  std::int64_t seed = 0;
};

/// A token of softmax(logits / temperature), restricted to the `top_k` largest
/// (0: all; among equals the smaller token comes first) and normalised anew
/// (Fan et al. 2018, arXiv:1805.04833). Temperature 0: the largest.
std::int64_t draw_token(std::span<const double> logits, double temperature,
                        std::int64_t top_k, KeyedRandom& random);

/// Draws a text from the weights of a checkpoint or safetensors file, token by
/// token, and tells each of its bytes but the prompt's. The model sees as many
/// of the last tokens as samples of its data have. The same weights, options
/// and machine give the same text. Throws UserError when the experiment's model
/// is none of texts, and for a prompt with a byte that its data don't have.
void sample_text(const Experiment& experiment, const std::string& weights,
                 const TextSampling& sampling,
                 const std::function<void(char)>& tell);

}  // namespace sluice
