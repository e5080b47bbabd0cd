// sluice::main() without a loop: a program with layers of its own that has the
// commands of `sluice`.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "experiments/api/own_model.h"
#include "experiments/api/own_parts.h"
#include "experiments/api/program.h"
#include "experiments/config/experiment.h"
#include "experiments/plugins/registration.h"
#include "experiments/program/command_line.h"
#include "experiments/program/own_command_line.h"
#include "lib/base/added_rows.h"
#include "lib/base/early_exit.h"
#include "lib/base/error.h"
#include "lib/base/own_image.h"
#include "lib/base/printable.h"
#include "lib/base/process_start.h"
#include "lib/engines/control.h"

namespace sluice {
namespace {

/// The layers of this program.
struct LayersOfProgram {
  Model model = {};
  std::string description = {};
};

const LayersOfProgram& layers_of_program() {
  const auto* layers = static_cast<const LayersOfProgram*>(
      added_rows::find(typeid(LayersOfProgram)));
  SLUICE_CHECK(layers != nullptr, "this program has no layers of its own");
  return *layers;
}

std::string text_of_sample(const SampleSpec& sample) {
  return fmt::format("{}[{}], {} classes", sample.is_text ? "texts " : "",
                     fmt::join(sample.shape, ", "), sample.classes);
}

MakeModel configure_own_layers(Fields& options) {
  const LayersOfProgram& layers = layers_of_program();
  std::string written = layers.description;
  options.key("layers", written,
              {.text = "sizes of each layer's output, and its number of "
                       "weights: a run is continued with the same ones only"});
  if (written != layers.description)
    options.reject("layers", fmt::format("the program has other layers now: {}",
                                         layers.description));
  return [&layers](const SampleSpec& sample) {
    const SampleSpec& own = layers.model.sample;
    if (own.shape != sample.shape || own.classes != sample.classes ||
        own.is_text != sample.is_text)
      throw UserError(
          "the layers of this program take {}, and the data set has {}",
          text_of_sample(own), text_of_sample(sample));
    Model model = layers.model;
    model.sample = sample;  // with what its targets are
    return model;
  };
}

void add_layers(const NetworkOptions& options) {
  const OwnModel own = model_of_program(options);
  added_rows::store(
      typeid(LayersOfProgram),
      std::make_shared<const LayersOfProgram>(LayersOfProgram{
          model_drawn_by_seed(options.layers, own), describe_layers(own)}));
  Plugin parts;
  parts.model({kOwnModel, "the layers of this program", configure_own_layers});
  for (const PolicyRow& policy : options.policies) parts.policy(policy);
  for (const ReplicaPolicyRow& policy : options.replica_policies)
    parts.replica_policy(policy);
  parts.add_to_tables();
}

/// Config for `run` and the like, when the command line names no file.
ConfigNode config_of_program(const NetworkOptions& options,
                             const std::string& name) {
  ConfigNode config = config_of(options);
  config.set_path("model.name", {.value = std::string(kOwnModel)});
  if (config.find("name") == nullptr) config.set("name", {.value = name});
  return config;
}

int own_commands(int argc, char** argv, const NetworkOptions& options,
                 const std::string& program) {
  if (!options.run.folder.empty())
    throw UserError(
        "NetworkOptions::run is for a loop of one's own; here `run --dir "
        "FOLDER` says where a run is");
  add_own_parts(options);
  add_layers(options);
  OwnCommandLine line(argc, argv, config_of_program(options, program), program);
  std::vector<char*> arguments = line.arguments();
  return run_command_line(
      static_cast<int>(arguments.size()) - 1, arguments.data(),
      {.name = program,
       .summary = fmt::format(
           "{} trains layers of its own with the commands of sluice; where one "
           "wants a config and none is named, it is the program's: {} run "
           "optimizer.lr=0.1",
           program, program)});
}

}  // namespace

int main(int argc, char** argv, const NetworkOptions& options) {
  begin_process();
  let_large_writes_fail();
  const std::string program = std::filesystem::path(argv[0]).filename();
  watch_for_early_exit(program);
  try {
    return reached_end(own_commands(argc, argv, options, program));
  } catch (const UserError& error) {
    fmt::print(stderr, "{}: {}\n", program, printable(error.what()));
    return reached_end(2);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", program, printable(text_of(error)));
    return reached_end(1);
  }
}

}  // namespace sluice
