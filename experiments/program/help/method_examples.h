#pragma once

#include <cstdint>
#include <string>

#include "experiments/config/experiment.h"
#include "experiments/config/presets/published.h"
#include "lib/boundaries/boundary.h"

namespace sluice {

/// A method in keys, for its page: lines of TOML, and a small model that it is
/// for; empty: any.
struct MethodExample {
  std::string keys = {};
  std::string model = {};
};

/// Example of a policy, which stands at every boundary.
MethodExample example_of(const PolicyRow& row);
MethodExample example_of(const PresetRow& row);

struct ExampleShape {
  int blocks = 1;             ///< where the keys don't say
  std::int64_t replicas = 1;  ///< where the keys are about replicas
};

/// A small network with these keys on a few samples, for 24 turns. With its
/// model: that of the method, where it has one.
Experiment example_experiment(const MethodExample& example, ExampleShape shape,
                              bool with_its_model = false);

}  // namespace sluice
