// `sluice export`: a run's model in one file, for others.
#include <fmt/format.h>

#include "experiments/config/files/extends.h"
#include "experiments/program/commands.h"
#include "experiments/runs/folder/newest.h"
#include "experiments/runs/folder/run_folder.h"
#include "experiments/runs/uses/export.h"
#include "lib/base/error.h"

namespace sluice {

namespace {

void export_found(const ExportArguments& arguments,
                  const NamedCheckpoint& from) {
  ConfigArguments config = arguments.config;
  config.config = config_of_run(from.folder);
  if (!arguments.torchscript.empty()) {
    const std::size_t count =
        export_torchscript(experiment_of(config), from, arguments.torchscript);
    fmt::print("{}: the TorchScript file with {} tensors, after turn {}\n",
               arguments.torchscript, count, from.turn);
    return;
  }
  const std::string file = arguments.file.empty()
                               ? from.folder + "/model.safetensors"
                               : arguments.file;
  if (!file.ends_with(".safetensors"))
    throw UserError("--out {}: a .safetensors file is what is written", file);
  const ConfigNode written = read_config_file(config.config);
  if (!arguments.names.empty() && written.find("own_loop") != nullptr)
    throw UserError(
        "--names {}: the layers of {} were made by a program, and have no "
        "public names",
        arguments.names, from.folder);
  const std::size_t tensors =
      written.find("own_loop") != nullptr
          ? export_own_layers(written, from, file)
          : export_model(experiment_of(config), from, file, arguments.names);
  fmt::print("{}: {} tensors of the whole model, after turn {}\n", file,
             tensors, from.turn);
}

}  // namespace

void export_command(const ExportArguments& arguments) {
  use_newest(
      [&] { return find_checkpoint(arguments.path, arguments.checkpoint); },
      [](const NamedCheckpoint& found) { return found.path; },
      [&](const NamedCheckpoint& found) { export_found(arguments, found); });
}

}  // namespace sluice
