#pragma once

#include <cstdint>

#include "lib/synthesizer.h"

namespace sluice {

struct SynthesizerOptions {
  std::int64_t hidden = 2;
  std::int64_t width = 1024;
  bool label = false;

  void describe(Fields& fields);
};

/// Reads the options; the kind of synthesizer follows from the features.
MakeSynthesizer configure_synthesizer(Fields& options);

}  // namespace sluice
