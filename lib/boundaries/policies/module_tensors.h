#pragma once

#include <cstdint>
#include <string_view>

#include <torch/nn/module.h>

#include "lib/boundaries/boundary.h"

namespace sluice {

/// The names that a policy's own module has in checkpoints: by the layer that
/// it stands above, "heads.7.classifier.weight".
struct ModuleTensors {
  ModuleTensors(torch::nn::Module& module, std::string_view kind,
                std::int64_t layer);

  NamedTensors parameters;
  NamedTensors buffers;
};

}  // namespace sluice
