#include "experiments/api/program.h"

#include <charconv>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

#include "experiments/api/generator_kept.h"
#include "experiments/api/network_process.h"
#include "experiments/api/policy_draws.h"
#include "experiments/config/files/overrides.h"
#include "experiments/config/files/toml.h"
#include "experiments/runs/run_folder.h"
#include "lib/base/error.h"
#include "lib/base/own_image.h"
#include "lib/base/printable.h"
#include "lib/base/process_start.h"
#include "lib/checkpoints/safetensors.h"
#include "lib/engines/control.h"
#include "lib/memory/allocator.h"

namespace sluice {
namespace {

int number_from(std::string_view text) {
  int number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    throw UserError("'{}' is no number", text);
  return number;
}

/// The inverse of worker_command().
WorkerArguments worker_arguments(int argc, char** argv) {
  WorkerArguments arguments;
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const std::string value = argv[i + 1];
    if (name == "--dir") arguments.folder = value;
    if (name == "--block") arguments.block = number_from(value);
    if (name == "--join") arguments.address = value;
    if (name == "--parent") arguments.parent = number_from(value);
    if (name == "--resume") arguments.resume = value;
  }
  return arguments;
}

int work(const NetworkOptions& options, const WorkerArguments& arguments) {
  const ConfigNode config = read_toml_file(config_of_run(arguments.folder));
  const OwnModel own = make_own_model(options.layers, options.example);
  const OwnNetwork network = {.model = own.model, .policies = options.policies};
  if (options.policies.empty())
    return run_network_process(read_network(config, network), arguments);
  const NamedTensors draws =
      read_safetensors(draws_of_network(arguments.folder));
  set_generator_state(state_at_config(draws));
  Experiment experiment = read_network(config, network);
  draw_from(draws, own.turn, experiment);
  return run_network_process(experiment, arguments);
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
    if (argc > 1 && std::string_view(argv[1]) == "worker")
      return work(options, worker_arguments(argc, argv));
    install_allocator();
    ConfigNode config = config_of(options);
    for (int i = 1; i < argc; ++i) apply_override(config, argv[i]);
    Network net(options, config, kOwnImage);
    train(net);
    return 0;
  } catch (const UserError& error) {
    return say(argv, error.what(), 2);
  } catch (const std::exception& error) {
    return say(argv, text_of(error), 1);
  }
}

}  // namespace sluice
