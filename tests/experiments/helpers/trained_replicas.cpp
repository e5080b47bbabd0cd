#include "tests/experiments/helpers/trained_replicas.h"

#include <utility>

namespace sluice::replica_runs {

std::vector<NamedTensors> weights_of(const Training& training) {
  std::vector<NamedTensors> all;
  for (int replica = 1; replica <= training.experiment.replicas.count;
       ++replica)
    all.push_back(copies_of(training.weights(replica)));
  return all;
}

std::vector<NamedTensors> trained(const std::string& lines, const Costs& costs,
                                  std::shared_ptr<Sink> sink) {
  Training training(small_experiment(lines), std::move(sink));
  training.train(costs);
  return weights_of(training);
}

NamedTensors parameters_of(NamedTensors all) {
  std::erase_if(all, [](const auto& named) {
    return named.first.find("running_") != std::string::npos ||
           named.first.find("num_batches") != std::string::npos;
  });
  return all;
}

}  // namespace sluice::replica_runs
