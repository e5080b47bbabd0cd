// sluice::main() with a loop: a program that trains a network of its own, and
// can be swept.
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <ATen/Context.h>
#include <fmt/format.h>
#include <sys/types.h>

#include "experiments/api/network_core.h"
#include "experiments/api/network_worker.h"
#include "experiments/api/own_parts.h"
#include "experiments/api/program.h"
#include "experiments/config/files/overrides.h"
#include "experiments/config/files/toml.h"
#include "experiments/config/reading/read_experiment.h"
#include "experiments/program/command_line.h"
#include "experiments/program/own_command_line.h"
#include "experiments/runs/processes/worker_process.h"
#include "lib/base/early_exit.h"
#include "lib/base/error.h"
#include "lib/base/own_image.h"
#include "lib/base/printable.h"
#include "lib/base/process_start.h"
#include "lib/base/stopping_signals.h"
#include "lib/engines/child_processes.h"
#include "lib/engines/control.h"
#include "lib/memory/allocator.h"
#include "lib/tensors/generator_guard.h"

namespace sluice {
namespace {

int say_error(char** argv, std::string_view text, int status) {
  fmt::print(stderr, "{}: {}\n",
             std::filesystem::path(argv[0]).filename().string(),
             printable(text));
  return status;
}

int print_usage(const char* program) {
  fmt::print(
      "usage: {0} [key=value ...] [--dir FOLDER [--overwrite | --resume]]\n"
      "       {0} sweep key=value,value ... (see {0} sweep --help)\n\n"
      "Trains a network in a loop of its own. The keys are those of `sluice "
      "help config`:\n"
      "engine=processes, threads=1, seed=2, optimizer.lr=0.1, "
      "boundary.1.policy=backprop.\n"
      "  --dir FOLDER  writes a run there\n"
      "  --overwrite   in the place of the one that is there\n"
      "  --resume      goes on from its last checkpoint\n",
      std::filesystem::path(program).filename().string());
  return 0;
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
    else if (text.find('=') == std::string_view::npos)
      throw UserError(
          "'{}' is no key=value, nor --dir FOLDER, --overwrite or --resume, "
          "nor `sweep` as the first word; see --help",
          text);
    else
      parsed.overrides.emplace_back(text);
  }
  if (parsed.run.folder.empty() && (parsed.run.overwrite || parsed.run.resume))
    throw UserError("--overwrite and --resume are of a run: add --dir FOLDER");
  return parsed;
}

/// Gives a seed from the config or command line to LibTorch's generator, from
/// which the program draws layers' weights and samples of its loop.
void seed_generator(const ConfigNode& asked) {
  const ConfigNode* node = asked.find("seed");
  const auto* seed =
      node == nullptr ? nullptr : std::get_if<std::int64_t>(&node->value);
  if (seed != nullptr) at::manual_seed(static_cast<std::uint64_t>(*seed));
}

/// A training of one's own, with the folder that it is written into.
struct OwnTraining {
  ConfigNode config = {};
  RunOfNetwork run = {};
};

OwnTraining training_of_command_line(int argc, char** argv,
                                     const NetworkOptions& options) {
  OwnArguments arguments = parsed_arguments(argc, argv, options.run);
  OwnTraining training{.config = config_of(options),
                       .run = std::move(arguments.run)};
  ConfigNode asked;
  for (const std::string& text : arguments.overrides) {
    apply_override(training.config, text);
    if (text.starts_with("seed=")) apply_override(asked, text);
  }
  seed_generator(asked);
  return training;
}

/// Lets a signal end this process at once, because a user's own loop can't be
/// stopped otherwise. The launcher has started it with signals blocked.
void let_signals_end_it() {
  const sigset_t held = stopping_signals();
  ::pthread_sigmask(SIG_UNBLOCK, &held, nullptr);
}

/// A run of a sweep of this program, as Slots start it: its config comes on the
/// standard input.
OwnTraining training_of_sweep(int argc, char** argv,
                              const NetworkOptions& options) {
  OwnTraining training{.run = options.run};
  RunOfNetwork& run = training.run;
  run.overwrite = run.resume = false;
  for (int i = 2; i < argc; ++i) {
    const std::string_view word = argv[i];
    const bool has_value = i + 1 < argc;
    if (word == "--overwrite") {
      run.overwrite = true;
    } else if (word == "--resume") {
      run.resume = true;
    } else if (word == "--dir" && has_value) {
      run.folder = argv[++i];
    } else if (word == "--parent" && has_value) {
      die_with_parent(static_cast<pid_t>(std::atoi(argv[++i])));
    } else if (word == "--command" && has_value) {
      ++i;  // run.json has this process's own
    }
  }
  let_signals_end_it();
  show_own_name();
  const std::string text(std::istreambuf_iterator<char>(std::cin), {});
  training.config = parse_toml(text, run.folder);
  seed_generator(training.config);
  return training;
}

/// Does a sweep of this program, or prints what it would do.
int sweep_own_loop(int argc, char** argv, const NetworkOptions& options) {
  add_own_parts(options);
  const auto own = std::make_shared<const OwnModel>(model_of_program(options));
  const ReadRun read = [own, &options](const ConfigNode& config) {
    const GeneratorGuard kept;
    return read_network(config, {.model = own->model,
                                 .policies = options.policies,
                                 .writes_run = true});
  };
  const std::string program = std::filesystem::path(argv[0]).filename();
  ConfigNode config = config_of(options);
  if (config.find("name") == nullptr) config.set("name", {.value = program});
  OwnCommandLine line(argc, argv, config, program);
  std::vector<char*> arguments = line.arguments();
  return run_command_line(
      static_cast<int>(arguments.size()) - 1, arguments.data(),
      {.name = program,
       .summary = fmt::format("{} trains a network of its own", program),
       .loop = {.read = read, .continues = options.run.resumable}});
}

}  // namespace

int main(int argc, char** argv, const NetworkOptions& options,
         const std::function<void(Network&)>& train) {
  begin_process();
  let_large_writes_fail();
  watch_for_early_exit(std::filesystem::path(argv[0]).filename());
  try {
    if (const auto arguments = take_worker_arguments())
      return reached_end(work_for_network(options, *arguments));
    const std::string_view command = argc > 1 ? argv[1] : "";
    if (command == "--help" || command == "-h" || command == "help")
      return reached_end(print_usage(argv[0]));
    if (command == "sweep")
      return reached_end(sweep_own_loop(argc, argv, options));
    install_allocator();
    const OwnTraining training =
        command == "run-of-sweep"
            ? training_of_sweep(argc, argv, options)
            : training_of_command_line(argc, argv, options);
    NetworkOptions own = options;
    own.run = training.run;
    Network net(std::make_unique<NetworkCore>(
        own, training.config, WorkerProgram{kOwnImage, own_command_line()}));
    train(net);
    if (!own.run.folder.empty()) net.finish();
    return reached_end(0);
  } catch (const UserError& error) {
    return reached_end(say_error(argv, error.what(), 2));
  } catch (const std::exception& error) {
    return reached_end(say_error(argv, text_of(error), 1));
  }
}

}  // namespace sluice
