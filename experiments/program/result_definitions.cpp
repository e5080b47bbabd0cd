// The commands for what runs have left.
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/ranges.h>

#include "experiments/program/commands.h"
#include "experiments/program/definitions.h"
#include "experiments/program/number_options.h"
#include "experiments/runs/checkpoints/public_names.h"
#include "experiments/runs/uses/text_sampling.h"
#include "experiments/runs/watch/watch.h"
#include "modules/script/torchscript.h"

namespace sluice {
namespace {

std::vector<std::string_view> names_of_tables() {
  std::vector<std::string_view> names;
  for (const NameTable& table : name_tables()) names.push_back(table.name);
  return names;
}

}  // namespace

void define_eval(CLI::App& app, EvalArguments& arguments) {
  CLI::App* command = app.add_subcommand(
      "eval", "Evaluate a run, a checkpoint or a safetensors file");
  command
      ->add_option(
          "path", arguments.path,
          "a run's folder (its best checkpoint, or else its last), one "
          "of its checkpoints, or a safetensors file")
      ->required();
  command->add_option("overrides", arguments.config.overrides,
                      "key=value, as in batch_size=256");
  command->add_option("--config", arguments.config.config,
                      "the config, when the weights belong to no run");
  CLI::Option* train =
      command->add_flag("--train", arguments.train, "on the training split");
  command
      ->add_flag("--validation", arguments.validation,
                 "on the validation split, which data.validation holds back")
      ->excludes(train);
  command->add_option("--logits", arguments.logits,
                      "also write the logits of the split's first samples, "
                      "with these and their labels, as a safetensors file");
  command->add_option("--samples", arguments.samples, "how many of them")
      ->check(positive_number());
  add_plugin_option(*command, arguments.config.plugins);
  command->callback([&] { eval_command(arguments); });
}

void define_export(CLI::App& app, ExportArguments& arguments) {
  CLI::App* command = app.add_subcommand(
      "export",
      "Write the model of a run as one safetensors file: all blocks' weights,\n"
      "named as in the uncut model, with config and commit as metadata");
  command
      ->add_option("path", arguments.path,
                   "a run's folder, or one of its checkpoints")
      ->required();
  command->add_option("overrides", arguments.config.overrides,
                      "key=value, as in data.root=FOLDER");
  command->add_option("--checkpoint", arguments.checkpoint,
                      "best, last, or a turn, as in turn-000120 or 120; "
                      "default: the best, or else the last");
  CLI::Option* out =
      command->add_option("--out", arguments.file,
                          "the file; default: model.safetensors in the run's "
                          "folder");
  CLI::Option* names = command->add_option(
      "--names", arguments.names,
      fmt::format("name the tensors as others do: {}; default: as in "
                  "checkpoints",
                  fmt::join(names_of_tables(), ", ")));
  command
      ->add_option("--torchscript", arguments.torchscript,
                   "of a model `torchscript`: write its TorchScript file once "
                   "more, with the weights of the run, instead")
      ->excludes(out)
      ->excludes(names);
  add_plugin_option(*command, arguments.config.plugins);
  command->callback([&] { export_command(arguments); });
}

void define_sample(CLI::App& app, SampleArguments& arguments) {
  CLI::App* command = app.add_subcommand(
      "sample",
      "Print a text drawn, token by token, from the language model of a run");
  command
      ->add_option("path", arguments.path,
                   "a run's folder (its best checkpoint, or else its last), or "
                   "one of its checkpoints")
      ->required();
  command->add_option("overrides", arguments.config.overrides,
                      "key=value, as in data.root=FOLDER");
  add_plugin_option(*command, arguments.config.plugins);
  TextSampling& sampling = arguments.sampling;
  command->add_option("--prompt", sampling.prompt,
                      "what the text begins with; default: a new line");
  command->add_option("--length", sampling.length, "tokens to be drawn")
      ->check(positive_number())
      ->capture_default_str();
  command
      ->add_option("--temperature", sampling.temperature,
                   "logits are divided by it; 0 takes the most probable token")
      ->check(number_from_zero())
      ->capture_default_str();
  command
      ->add_option("--top-k", sampling.top_k,
                   "draw from the K most probable tokens; 0: from all")
      ->check(number_from_zero())
      ->capture_default_str();
  command
      ->add_option("--seed", sampling.seed, "another seed gives another text")
      ->check(number_from_zero())
      ->capture_default_str();
  command->callback([&] { sample_command(arguments); });
}

void define_checkpoint(CLI::App& app, CheckpointArguments& arguments) {
  CLI::App* command = app.add_subcommand(
      "checkpoint",
      "List the checkpoints of a run, with the batches in flight in each");
  command->add_option("run", arguments.folder, "the run's folder")->required();
  command->add_flag("--drain", arguments.drain,
                    "apply what is in flight in the last one, without further "
                    "batches: then it can be continued with another cut or "
                    "other policies");
  command->callback([&] { checkpoint_command(arguments); });
}

void define_watch(CLI::App& app, std::string& folder, bool& once) {
  CLI::App* command = app.add_subcommand(
      "watch", "Show the progress of a run, block by block, until it ends");
  command->add_option("run", folder, "the run's folder")->required();
  command->add_flag("--once", once, "print the present state and exit");
  command->callback([&] { watch(folder, once); });
}

void define_report(CLI::App& app, ReportArguments& arguments) {
  CLI::App* command = app.add_subcommand(
      "report",
      "Show the results of runs: an HTML page with a table (mean and\n"
      "standard deviation over seeds), curves, what decoupling costs, "
      "staleness,\n"
      "memory and timelines; and the table as Markdown and CSV beside it.\n"
      "Runs that differ only in their seed share a row.");
  command
      ->add_option("folders", arguments.folders,
                   "folders of runs or of sweeps, or a folder that holds such")
      ->required();
  command->add_option("--out", arguments.page,
                      "the page, a .html file; default: report.html in the "
                      "first folder");
  command->add_flag("--untimed", arguments.untimed,
                    "leave out measured times, rates and memory, so that the "
                    "same results give the same bytes");
  command->add_option("--target", arguments.target,
                      "a test loss (0.5) or accuracy (97%): add what each cell "
                      "took until its first evaluation that is as good "
                      "(samples, operations, time), and who is on the front of "
                      "cost and time");
  command->callback([&] { report_command(arguments); });
}

void define_check_script(CLI::App& app, std::string& file) {
  CLI::App* command = app.add_subcommand("check-script")->group("");
  command->add_option("file", file)->required();
  command->callback([&] { check_torchscript(file); });
}

}  // namespace sluice
