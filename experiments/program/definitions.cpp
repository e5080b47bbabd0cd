#include "experiments/program/definitions.h"

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "experiments/config/tables/plugin_keys.h"
#include "experiments/program/commands.h"
#include "experiments/program/new_plugin.h"

namespace sluice {

void add_plugin_option(CLI::App& command, std::vector<std::string>& plugins) {
  command
      .add_option("--plugin", plugins,
                  "a shared library with parts of one's own, beside the "
                  "config's `plugins`; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
}

void add_config(CLI::App& command, ConfigArguments& arguments) {
  command.add_option("config", arguments.config, "a TOML file")->required();
  command.add_option("overrides", arguments.overrides,
                     "key=value, as in optimizer.lr=0.05");
  add_plugin_option(command, arguments.plugins);
}

void define_list(CLI::App& app, ListArguments& arguments,
                 std::vector<std::string>& plugins) {
  CLI::App* command = app.add_subcommand(
      "list",
      "List the methods, models, data sets, ... that a config can name, and\n"
      "the options of each");
  command->add_option("table", arguments.kind,
                      "what to list, or a published name; default: the tables");
  command->add_option("name", arguments.name,
                      "of a row in it, to be described with its options");
  command->add_flag("--axes", arguments.axes,
                    "of all methods a table of what they cost in computation, "
                    "communication and approximation");
  add_plugin_option(*command, plugins);
  command->callback([&] {
    load_plugins(plugins);
    list_command(arguments);
  });
}

void define_config(CLI::App& app, ConfigArguments& arguments) {
  CLI::App* command = app.add_subcommand(
      "config",
      "Print what a config resolves to: every key with its value, as TOML\n"
      "that can be run");
  command->add_option("config", arguments.config,
                      "a TOML file; default: all defaults");
  command->add_option("overrides", arguments.overrides,
                      "key=value, as in optimizer.lr=0.05");
  add_plugin_option(*command, arguments.plugins);
  command->callback([&] { config_command(arguments); });
}

void define_doctor(CLI::App& app, const ProgramOptions& program) {
  CLI::App* command = app.add_subcommand(
      "doctor",
      "Show what this build and this host can do, and the remedy for what is\n"
      "missing: CUDA, MPI, NCCL, cores, memory, GPUs, data sets");
  command->callback([&] { doctor_command(program.fetched); });
}

void define_new(CLI::App& app, std::string& name) {
  CLI::App* command =
      app.add_subcommand("new", "Write the beginning of something of your own");
  command->require_subcommand(1);
  CLI::App* plugin = command->add_subcommand(
      "plugin",
      "Write a folder with a plug-in that builds: a head, a data set, a test\n"
      "and a config. See docs/plugins.md.");
  plugin
      ->add_option("name", name,
                   "of the folder, the library and what it adds: a to z, 0 to "
                   "9 and _")
      ->required();
  plugin->callback([&] { new_plugin_command(name); });
}

}  // namespace sluice
