#include "experiments/api/program.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/api/network_core.h"
#include "experiments/api/network_worker.h"
#include "experiments/config/files/overrides.h"
#include "experiments/runs/worker_process.h"
#include "lib/base/error.h"
#include "lib/base/own_image.h"
#include "lib/base/printable.h"
#include "lib/base/process_start.h"
#include "lib/engines/control.h"
#include "lib/memory/allocator.h"

namespace sluice {
namespace {

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
      return work_for_network(options, *arguments);
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
