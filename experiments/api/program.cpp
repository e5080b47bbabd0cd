#include "experiments/api/program.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/api/network_core.h"
#include "experiments/api/own_parts.h"
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
        add_own_parts(options);
        const OwnModel own = make_own_model(options.layers, options.example);
        const OwnNetwork network = {
            .model = own.model,
            .policies = options.policies,
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

int say(char** argv, std::string_view text, int status) {
  fmt::print(stderr, "{}: {}\n",
             std::filesystem::path(argv[0]).filename().string(),
             printable(text));
  return status;
}

/// What the command line says of a network: keys of its settings, and its run.
struct OwnArguments {
  std::vector<std::string> overrides = {};
  RunOfNetwork run = {};
};

OwnArguments parsed_arguments(int argc, char** argv, RunOfNetwork run) {
  OwnArguments parsed{.run = std::move(run)};
  for (int i = 1; i < argc; ++i) {
    const std::string_view text = argv[i];
    if (text == "--overwrite")
      parsed.run.overwrite = true;
    else if (text == "--resume")
      parsed.run.resume = true;
    else if (text.starts_with("--dir="))
      parsed.run.folder = text.substr(std::string_view("--dir=").size());
    else if (text == "--dir" && i + 1 < argc)
      parsed.run.folder = argv[++i];
    else
      parsed.overrides.emplace_back(text);
  }
  if (parsed.run.folder.empty() && (parsed.run.overwrite || parsed.run.resume))
    throw UserError("--overwrite and --resume are of a run: add --dir FOLDER");
  return parsed;
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
    const OwnArguments arguments = parsed_arguments(argc, argv, options.run);
    ConfigNode config = config_of(options);
    for (const std::string& text : arguments.overrides)
      apply_override(config, text);
    NetworkOptions own = options;
    own.run = arguments.run;
    Network net(std::make_unique<NetworkCore>(
        own, config, WorkerProgram{kOwnImage, own_command_line()}));
    train(net);
    if (!own.run.folder.empty()) net.finish();
    return 0;
  } catch (const UserError& error) {
    return say(argv, error.what(), 2);
  } catch (const std::exception& error) {
    return say(argv, text_of(error), 1);
  }
}

}  // namespace sluice
