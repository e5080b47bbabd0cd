#pragma once

#include <cstdint>

#include "lib/boundaries/synthesizer.h"

namespace sluice {

struct SynthesizerOptions {
  std::int64_t hidden = 2;
  std::int64_t width = 1024;
  bool label = false;
  bool random_bias = false;

  void describe(Fields& fields);
};

/// What a synthesizer's last layer begins with: zero, so that the first
/// prediction is; with random_bias, as published code has it, only its weights.
void zero_last_layer(torch::nn::Module& last,
                     const SynthesizerOptions& options);

/// Reads the options; the kind of synthesizer follows from the features.
MakeSynthesizer configure_synthesizer(Fields& options);

}  // namespace sluice
