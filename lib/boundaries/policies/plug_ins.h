#pragma once

#include <span>

#include "lib/boundaries/boundary.h"
#include "lib/boundaries/head.h"
#include "lib/boundaries/predictor.h"

namespace sluice {

/// What policies may be made of, from the folders that lib/ doesn't know.
struct PlugIns {
  std::span<const HeadRow> heads;
  ConfigurePredictor synthesizer;
  ConfigurePredictor input_model = nullptr;
};

}  // namespace sluice
