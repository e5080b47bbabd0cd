#include "tests/gpu/trained_on.h"

#include "experiments/runs/seats/assembly.h"
#include "tests/experiments/helpers/training.h"

namespace sluice {

NamedTensors trained_on(const std::string& device, const std::string& lines) {
  const Experiment experiment =
      small_experiment("device = '" + device + "'\n" + lines);
  prepare_process(experiment);
  Training training(experiment);
  training.train();
  NamedTensors weights;
  for (const auto& [name, tensor] : training.weights())
    weights.emplace_back(name, tensor.cpu());
  return weights;
}

NamedTensors untrained(const std::string& lines) {
  return copies_of(Training(small_experiment(lines)).weights());
}

}  // namespace sluice
