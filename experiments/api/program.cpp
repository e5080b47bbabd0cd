#include "experiments/api/program.h"

#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

#include "experiments/api/policy_draws.h"
#include "experiments/config/files/overrides.h"
#include "experiments/runs/worker_process.h"
#include "lib/base/error.h"
#include "lib/base/own_image.h"
#include "lib/base/printable.h"
#include "lib/base/process_start.h"
#include "lib/checkpoints/safetensors.h"
#include "lib/engines/control.h"
#include "lib/memory/allocator.h"
#include "lib/tensors/generator_kept.h"

namespace sluice {
namespace {

int work(const NetworkOptions& options, const WorkerArguments& arguments) {
  return run_worker_process(
      arguments,
      [&](const ConfigNode& config) {
        const OwnModel own = make_own_model(options.layers, options.example);
        const OwnNetwork network = {.model = own.model,
                                    .policies = options.policies};
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

int say(char** argv, std::string_view text, int status) {
  fmt::print(stderr, "{}: {}\n",
             std::filesystem::path(argv[0]).filename().string(),
             printable(text));
  return status;
}

}  // namespace

int main(int argc, char** argv, const NetworkOptions& options,
         const std::function<void(Network&)>& train) {
  begin_process();
  let_large_writes_fail();
  try {
    if (const auto arguments = take_worker_arguments())
      return work(options, *arguments);
    install_allocator();
    ConfigNode config = config_of(options);
    for (int i = 1; i < argc; ++i) apply_override(config, argv[i]);
    Network net(options, config, {kOwnImage, own_command_line()});
    train(net);
    return 0;
  } catch (const UserError& error) {
    return say(argv, error.what(), 2);
  } catch (const std::exception& error) {
    return say(argv, text_of(error), 1);
  }
}

}  // namespace sluice
