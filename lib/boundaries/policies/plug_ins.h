#pragma once

#include <span>

#include "lib/boundaries/head.h"
#include "lib/boundaries/input_model.h"
#include "lib/boundaries/policy.h"
#include "lib/boundaries/synthesizer.h"

namespace sluice {

/// What policies may be made of, from the folders that lib/ doesn't know.
struct PlugIns {
  std::span<const HeadRow> heads;
  ConfigureSynthesizer synthesizer;
  ConfigureInputModel input_model = nullptr;
};

}  // namespace sluice
