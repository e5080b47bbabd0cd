#pragma once

#include <span>

#include "lib/head.h"
#include "lib/input_model.h"
#include "lib/policy.h"
#include "lib/synthesizer.h"

namespace sluice {

/// What policies may be made of, from the folders that lib/ doesn't know.
struct PlugIns {
  std::span<const HeadRow> heads;
  ConfigureSynthesizer synthesizer;
  ConfigureInputModel input_model = nullptr;
};

}  // namespace sluice
