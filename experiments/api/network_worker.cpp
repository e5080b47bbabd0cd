#include "experiments/api/network_worker.h"

#include "experiments/api/own_model.h"
#include "experiments/api/own_parts.h"
#include "experiments/api/policy_draws.h"
#include "experiments/config/experiment.h"
#include "experiments/config/reading/read_experiment.h"
#include "lib/base/config_node.h"
#include "lib/checkpoints/safetensors.h"
#include "lib/tensors/generator_guard.h"

namespace sluice {

int work_for_network(const NetworkOptions& options,
                     const WorkerArguments& arguments) {
  return run_worker_process(
      arguments,
      [&](const ConfigNode& config) {
        add_own_parts(options);
        const OwnModel own = make_own_model(options.layers, options.example);
        const OwnNetwork network = {
            .model = own.model,
            .policies = options.policies,
            .replica_policies = options.replica_policies,
            .writes_run = config.find("own_loop") != nullptr};
        if (options.policies.empty()) return read_network(config, network);
        const NamedTensors draws =
            read_safetensors(draws_of_network(arguments.folder));
        set_generator_state(state_at_config(draws));
        Experiment experiment = read_network(config, network);
        draw_from(draws, own.turn, experiment);
        return experiment;
      },
      Batches::with_grants);
}

}  // namespace sluice
