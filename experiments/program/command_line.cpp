#include "experiments/program/command_line.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/config/catalog.h"
#include "experiments/config/plugin_keys.h"
#include "experiments/program/commands.h"
#include "experiments/program/completion.h"
#include "experiments/program/data_commands.h"
#include "experiments/program/help_topics.h"
#include "experiments/program/new_plugin.h"
#include "experiments/runs/divergence.h"
#include "experiments/runs/provenance.h"
#include "experiments/runs/stop_signals.h"
#include "experiments/runs/watch/watch.h"
#include "experiments/runs/worker_process.h"
#include "experiments/sweep/array_task.h"
#include "experiments/sweep/run_process.h"
#include "lib/base/error.h"
#include "lib/base/nearest.h"
#include "lib/base/own_image.h"
#include "lib/base/printable.h"
#include "lib/base/process_start.h"
#include "lib/engines/control.h"

namespace sluice {
namespace {

/// Exit statuses: 0 done, 1 a worker or the program failed, 2 an error that the
/// user can correct, kDivergedStatus; for cards and sweeps also those of
/// run_command() and sweep_command().
constexpr int kFailed = 1;
constexpr int kMisused = 2;

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

std::string joined_command(int argc, char** argv) {
  std::string command;
  for (int i = 0; i < argc; ++i)
    command += (i == 0 ? "" : " ") + std::string(argv[i]);
  return command;
}

void define_run(CLI::App& app, RunArguments& arguments, int& status) {
  CLI::App* command = app.add_subcommand(
      "run",
      "Train a network as a config describes it (exit status 5: a loss was "
      "NaN or\n"
      "infinite), or do the runs of a card and compare them with published "
      "results\n"
      "(exit status 0: the card passed, 3: it failed, 4: some runs are still "
      "to be\n"
      "done: the same command continues).");
  command->add_option("config", arguments.config.config,
                      "a TOML file; none with --resume");
  command->add_option("overrides", arguments.config.overrides,
                      "key=value, as in optimizer.lr=0.05");
  command->add_option("--resume", arguments.resume,
                      "continue the run in this folder from its last "
                      "checkpoint, even in the middle of an epoch; overrides "
                      "may follow: blocks=4 cuts the model anew");
  command->add_option("--dir", arguments.folder,
                      "the run's folder; default: runs/NAME-1, runs/NAME-2, "
                      "...; for a card: runs/cards/NAME");
  command->add_flag("--overwrite", arguments.overwrite,
                    "delete the run that is in the folder, and start anew");
  command->add_flag("--fast-dev-run", arguments.fast_dev_run,
                    "read the whole config, then only try it out: a few turns, "
                    "one evaluation of a few samples, a checkpoint, in "
                    "runs/fast-dev-run/NAME, which is replaced");
  command
      ->add_option("--only", arguments.only,
                   "do only this run of a card; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--inject", arguments.faults,
                      "faults to inject, as in 'kill block 2 @ turn 50'; "
                      "see sluice help inject");
  add_plugin_option(*command, arguments.config.plugins);
  command->callback([&] { status = run_command(arguments); });
}

void define_sweep(CLI::App& app, SweepArguments& arguments, int& status) {
  CLI::App* command = app.add_subcommand(
      "sweep",
      "Do many runs of a config: each combination of the values in "
      "key=a,b,c, or\n"
      "in the config's [sweep] (sluice help sweep), with several seeds. Runs "
      "that\n"
      "are done are skipped, interrupted ones continue (exit status 0: all "
      "are\n"
      "done, 3: some failed, 4: some are still to be done: the same command\n"
      "continues).");
  command->add_option("config", arguments.config.config, "a TOML file")
      ->required();
  command->add_option(
      "settings", arguments.config.overrides,
      "key=value for all runs, key=a,b,c for an axis; with --samples also\n"
      "key=uniform(0,1), log_uniform(1e-4,1e-1) or int(1,5). Behind it\n"
      "' if key=x' where the axis holds only then");
  command->add_option("--seeds", arguments.seeds,
                      "seeds of each cell: a number of them, or a list: 1,5,9");
  command
      ->add_option("--samples", arguments.samples,
                   "draw this number of cells at random instead of doing all")
      ->check(CLI::PositiveNumber);
  command->add_flag("--zip", arguments.zip,
                    "change all axes together, first value with first value");
  command->add_option("--dir", arguments.folder,
                      "the sweep's folder; default: runs/sweeps/NAME");
  command
      ->add_option("--jobs", arguments.jobs,
                   "runs at once, each with its part of the cores and, with "
                   "device = \"cuda\", of the GPUs; with Slurm as many as it "
                   "has room for, or N")
      ->check(CLI::Range(1, 1024));
  command
      ->add_option("--launcher", arguments.launcher,
                   "local: on this machine; slurm: as a job array, which is "
                   "submitted with sbatch and waited for")
      ->check(CLI::IsMember({"local", "slurm"}));
  command->add_option("--slurm", arguments.slurm,
                      "options of sbatch, as in '--partition=p "
                      "--time=1:00:00 --cpus-per-task=4'");
  command->add_flag("--no-wait", arguments.no_wait,
                    "end when the job array is submitted");
  command->add_flag("--ask-tell", arguments.ask_tell,
                    "do what a driver, such as Optuna, proposes in lines of "
                    "JSON; see sluice help sweep");
  command
      ->add_option("--on-failure", arguments.on_failure,
                   "report: a run that failed stays so; retry: each is tried "
                   "once more")
      ->check(CLI::IsMember({"report", "retry"}));
  command
      ->add_option("--done", arguments.done_rows,
                   "a report_runs.csv: the runs that it has as done, on "
                   "another machine say, are not done here; may be given again")
      ->check(CLI::ExistingFile)
      ->allow_extra_args(false);
  command->add_flag("--again", arguments.again,
                    "repeat runs that another build has made, or that have "
                    "another config");
  command->add_flag("--dry-run", arguments.dry_run,
                    "print the plan and what is done; start nothing");
  add_plugin_option(*command, arguments.config.plugins);
  command->callback([&] { status = sweep_command(arguments); });
}

/// The hidden subcommand that the launcher of a sweep starts.
void define_run_of_sweep(CLI::App& app, sweep::RunProcessArguments& arguments,
                         int& status) {
  CLI::App* command = app.add_subcommand("run-of-sweep")->group("");
  command->add_option("--dir", arguments.folder)->required();
  command->add_option("--parent", arguments.parent)->required();
  command->add_option("--command", arguments.command);
  command->add_option("--pause", arguments.pause_turn);
  command->add_flag("--resume", arguments.resume);
  command->add_flag("--overwrite", arguments.overwrite);
  command->callback([&] { status = sweep::do_run_of_sweep(arguments); });
}

/// The hidden subcommand that the batch script of a sweep's job array starts.
void define_task_of_sweep(CLI::App& app, sweep::ArrayTaskArguments& arguments,
                          int& status) {
  CLI::App* command = app.add_subcommand("task-of-sweep")->group("");
  command->add_option("--array", arguments.array)->required();
  command->add_option("--task", arguments.task)->required();
  command->add_option("--job", arguments.job)->required();
  command->add_option("--cores", arguments.cores);
  command->callback([&] {
    arguments.program = kOwnImage;
    status = sweep::do_array_task(arguments);
  });
}

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
      ->check(CLI::PositiveNumber);
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
  command
      ->add_option("--torchscript", arguments.torchscript,
                   "of a model `torchscript`: write its TorchScript file once "
                   "more, with the weights of the run, instead")
      ->excludes(out);
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
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option("--temperature", sampling.temperature,
                   "logits are divided by it; 0 takes the most probable token")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      ->add_option("--top-k", sampling.top_k,
                   "draw from the K most probable tokens; 0: from all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      ->add_option("--seed", sampling.seed, "another seed gives another text")
      ->check(CLI::NonNegativeNumber)
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

void define_plan(CLI::App& app, PlanArguments& arguments) {
  CLI::App* command = app.add_subcommand(
      "plan", "Show the schedule of each block as a timeline, and check it");
  add_config(*command, arguments.config);
  command
      ->add_option("--turns", arguments.turns, "turns in steady state to show")
      ->check(CLI::Range(1, 1000));
  const auto list = [&](const char* key, const char* text) {
    command->add_option(fmt::format("--{}", key), arguments.lists[key], text);
  };
  list("forward", "seconds of a forward: one number, or one per block: 1,2,1");
  list("backward", "seconds of a backward: one number, or one per block");
  list("update", "seconds of an update: one number, or one per block");
  list("learn",
       "seconds of a synthesizer's update: one number, or one per block");
  list("head",
       "extra seconds per backward for a head: one number, or one per block");
  const auto number = [&](const char* key, const char* text) {
    command->add_option(fmt::format("--{}", key), arguments.numbers[key], text);
  };
  number("latency", "seconds of a message");
  number("bandwidth", "bytes/s of a link; 0: unlimited");
  number("jitter",
         "random part by which every duration varies: 0.1 is ten percent");
  number("seed", "seed of the jitter");
  command
      ->add_option("--slow", arguments.slow,
                   "a block that takes longer, as in 2x1.5")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_flag(
      "--calibrate", arguments.calibrate,
      "measure all these durations in a few turns on this machine");
  command->add_option("--trace", arguments.trace,
                      "write the timeline to this file, for ui.perfetto.dev");
  command->add_option("--actions", arguments.actions_file,
                      "a file of schedules to check instead of the config's: a "
                      "line per block, block 1 first, such as 'F0 B0 U0'");
  command->add_flag("--list", arguments.list,
                    "print the schedules as --actions reads them");
  command->add_flag(
      "--compare", arguments.compare,
      "measure several methods, cut into several numbers of blocks, and "
      "predict time, memory and traffic of each; see sluice help plan");
  command
      ->add_option(
          "--method", arguments.methods,
          "with --compare: a method, by name or as {policy = \"NAME\", "
          "...}; may be repeated; default: the config's and six "
          "others")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      ->add_option("--blocks", arguments.blocks,
                   "with --compare: numbers of blocks; default: 2,4")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 1024));
  command
      ->add_option("--replicas", arguments.replicas,
                   "with --compare: numbers of replicas, each with each number "
                   "of blocks; default: 1")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 1024));
  command
      ->add_option(
          "--seconds", arguments.seconds,
          "with --compare: seconds to measure, but at least one round; "
          "default: 60")
      ->check(CLI::PositiveNumber);
  command->add_option("--machine", arguments.machine,
                      "a TOML file with the devices and links to predict for; "
                      "see sluice help plan");
  command->callback([&] { plan_command(arguments); });
}

void define_what_if(CLI::App& app, WhatIfArguments& arguments) {
  CLI::App* command =
      app.add_subcommand("what-if",
                         "Predict from the trace.json of a run its times with "
                         "other links, devices\n"
                         "or blocks, beside the times that were measured.");
  command->add_option("run", arguments.folder, "the run's folder")->required();
  command->add_option("--blocks", arguments.blocks,
                      "another cut: 4, or 0-3,4-");
  command->add_option("--machine", arguments.machine,
                      "a TOML file with devices and links; see sluice help "
                      "plan");
  command->add_option("--latency", arguments.latency, "seconds of a message");
  command->add_option("--bandwidth", arguments.bandwidth,
                      "bytes/s of a link; 0: unlimited");
  command
      ->add_option("--slow", arguments.slow,
                   "a block that takes longer, as in 2x1.5, or less: 2x0.5")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->callback([&] { what_if_command(arguments); });
}

void define_verify(CLI::App& app, VerifyArguments& arguments, int& status) {
  CLI::App* command = app.add_subcommand(
      "verify",
      "Run a config for a few turns on each engine and compare every gradient\n"
      "and tensor after every update (exit status 0: the same bits, 1: not).\n"
      "With schedule = \"free\" each run is compared with its replay.");
  add_config(*command, arguments.config);
  command
      ->add_option("--turns", arguments.turns,
                   "number of turns, at most an epoch; default: 20")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--engines", arguments.engines,
                   "the engines; all others are compared with the first; "
                   "default: virtual,threads,processes")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"virtual", "threads", "processes"}));
  command
      ->add_option("--change", arguments.changes,
                   "ENGINE:KEY=VALUE, an override for one engine, as in "
                   "threads:seed=2: to see that a difference is found")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->callback([&] { status = verify_command(arguments); });
}

void define_replay(CLI::App& app, std::string& folder, int& status) {
  CLI::App* command = app.add_subcommand(
      "replay",
      "Repeat a run whose blocks ran free, from the record in its folder, in\n"
      "one thread, and compare it with the run's checkpoints (exit status 0:\n"
      "the same bits, 1: not).");
  command->add_option("run", folder, "the run's folder")->required();
  command->callback([&] { status = replay_command(folder); });
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
                      "a test loss: add what each cell took until its first "
                      "evaluation at or below it (samples, operations, time), "
                      "and who is on the front of cost and time");
  command->callback([&] { report_command(arguments); });
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

void define_data_order(CLI::App& data, DataOrderArguments& arguments) {
  CLI::App* command = data.add_subcommand(
      "order",
      "Print the samples of every batch of a run, to repeat it elsewhere.\n"
      "A line per batch: BATCH EPOCH SAMPLE SAMPLE ..., numbers from 0 with a\n"
      "space between. A sample is its place in the training files, in their\n"
      "order; of a text it is the byte at which its window starts.");
  add_config(*command, arguments.config);
  command
      ->add_option("--turns", arguments.turns,
                   "print the first N batches; default: all of the run")
      ->check(CLI::PositiveNumber);
  command
      ->add_option(
          "--with", arguments.with,
          "also write random values that other programs can't draw, as a\n"
          "safetensors file; L is a layer of the uncut model, T a batch:\n"
          "masks: masks.T.layers.L.NAME, [N, ...] or [N, C, 1, 1], 0 or\n"
          "1/(1-p), by which a dropout of the model multiplies (those of\n"
          "auxiliary heads are left out);\n"
          "labels: labels.T, [N] or [N, places]; for Forward-Forward labels.T\n"
          "[N, 2], those written into the two inputs of a pair, right and "
          "wrong;\n"
          "projections: projections.L.I, [classes, width], DRTP's: row y over\n"
          "N is the gradient at tensor I of layer L's output for label y")
      ->delimiter(',')
      ->check(CLI::IsMember({"masks", "labels", "projections"}));
  command->add_option("--out", arguments.file,
                      "that file; default: order.safetensors");
  command->callback([&] { data_order_command(arguments); });
}

void define_data_fetch(CLI::App& data, DataFetchArguments& arguments,
                       const ProgramOptions& program) {
  CLI::App* command = data.add_subcommand(
      "fetch", "Download published data sets: " + program.fetchable +
                   ".\nContinues an interrupted download, checks the SHA-256, "
                   "and leaves "
                   "files\nthat are already there unchanged.");
  command->add_option("names", arguments.names, "data sets")->required();
  command
      ->add_option("--root", arguments.root,
                   "the folder of data files, as data.root of a config")
      ->envname("SLUICE_DATA");
  command->add_option("--from", arguments.url,
                      "the URL of a folder with the files, for one data set, "
                      "instead of the published URL");
  command->callback([&] { program.fetch(arguments); });
}

/// Those that are not for the program itself.
std::vector<CLI::App*> commands_of(CLI::App& app) {
  return app.get_subcommands(
      [](CLI::App* command) { return !command->get_group().empty(); });
}

CLI::App* find_command(CLI::App& app, const std::string& name) {
  for (CLI::App* command : commands_of(app))
    if (command->get_name() == name) return command;
  return nullptr;
}

/// What a description says before it goes into details, in one line.
std::string beginning_of(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  for (const char* end : {" (", ": ", "; ", ". "})
    text.resize(std::min(text.size(), text.find(end)));
  return text;
}

void print_topics(CLI::App& app) {
  fmt::print(
      "sluice help TOPIC, COMMAND or NAME explains one, of a published system\n"
      "(sluice help pipedream) the keys that make it. Topics:\n");
  for (const HelpTopic& topic : help_topics())
    fmt::print("  {:<12}{}\n", topic.name, topic.summary);
  fmt::print("\nCommands:\n");
  for (CLI::App* command : commands_of(app))
    fmt::print("  {:<12}{}\n", command->get_name(),
               beginning_of(command->get_description()));
}

/// "data order": a command, and commands below it.
bool print_command(CLI::App& app, const std::vector<std::string>& words) {
  CLI::App* command = &app;
  for (const std::string& word : words) {
    command = find_command(*command, word);
    if (command == nullptr) return false;
  }
  fmt::print("{}", command->help());
  return true;
}

void help(CLI::App& app, const std::vector<std::string>& words) {
  if (words.empty()) return print_topics(app);
  if (words.size() == 2 && words[0] == "config") {
    fmt::print("{}", text_about_key(words[1]));
    return;
  }
  std::vector<std::string> names;
  for (const HelpTopic& topic : help_topics()) {
    if (words.size() == 1 && words[0] == topic.name) return topic.print();
    names.emplace_back(topic.name);
  }
  if (print_command(app, words)) return;
  for (CLI::App* command : commands_of(app))
    names.push_back(command->get_name());
  fmt::print("{}", text_about(fmt::format("{}", fmt::join(words, " ")), names));
}

void define_help(CLI::App& app, std::vector<std::string>& words,
                 std::vector<std::string>& plugins) {
  CLI::App* command = app.add_subcommand(
      "help", "Explain topics, commands, config keys and published names");
  command->add_option("topic", words,
                      "config, config KEY, sweep, plan, inject, a command, or "
                      "the name of a system, method, model, ...; default: list "
                      "them");
  add_plugin_option(*command, plugins);
  command->callback([&] {
    load_plugins(plugins);
    help(app, words);
  });
}

void define_completion(CLI::App& app, std::string& shell) {
  CLI::App* command = app.add_subcommand(
      "completion",
      "Print what makes a shell complete commands, options, keys and values:\n"
      "in bash source <(sluice completion bash)");
  command->add_option("shell", shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->callback([&] { fmt::print("{}", completion_script(shell)); });
}

/// A command as the completion knows it.
CommandWords words_of(CLI::App& command) {
  CommandWords words;
  words.name = command.get_name();
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames())
      words.options.push_back("--" + name);
    const std::string& name = option->get_single_name();
    if (name == "overrides" || name == "settings") words.takes_keys = true;
  }
  for (CLI::App* below : commands_of(command))
    words.commands.push_back(words_of(*below));
  return words;
}

/// `sluice complete WORD...`, which the scripts of `sluice completion` call: a
/// line for each way to go on with the last word. Words are taken as they are.
int complete(CLI::App& app, int argc, char** argv) {
  const std::vector<std::string> typed(argv + 2, argv + argc);
  for (const std::string& way : completions(words_of(app).commands, typed))
    fmt::print("{}\n", way);
  return 0;
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

/// The hidden subcommand that the launcher starts for each block.
void define_worker(CLI::App& app, WorkerArguments& arguments, int& status) {
  CLI::App* command = app.add_subcommand("worker")->group("");
  command->add_option("--dir", arguments.folder)->required();
  command->add_option("--block", arguments.block)->required();
  command->add_option("--join", arguments.address)->required();
  command->add_option("--parent", arguments.parent)->required();
  command->add_option("--resume", arguments.resume);
  command->add_option("--inject", arguments.faults);
  command->add_option("--local-rank", arguments.local_rank);
  command->callback([&] { status = run_worker_process(arguments); });
}

/// CLI11 says only that a command is missing.
std::string unknown_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return "";
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) {
    if (command->get_name() == argv[1]) return "";
    if (!command->get_group().empty()) names.push_back(command->get_name());
  }
  return fmt::format(", not '{}'{}: {}", argv[1], perhaps(argv[1], names),
                     joined(names));
}

int say_of(const std::string& program, const std::string& text, int status) {
  fmt::print(stderr, "{}: {}\n", program, printable(text));
  return status;
}

}  // namespace

int run_command_line(int argc, char** argv, const ProgramOptions& program) {
  CLI::App app(program.summary);
  app.require_subcommand(1);
  app.set_version_flag("--version", version_text);
  RunArguments run;
  SweepArguments sweep;
  sweep::RunProcessArguments run_of_sweep;
  sweep::ArrayTaskArguments task_of_sweep;
  EvalArguments eval;
  ExportArguments exported;
  SampleArguments sample;
  CheckpointArguments checkpoint;
  PlanArguments plan;
  WhatIfArguments what_if;
  VerifyArguments verify;
  std::string replayed;
  std::string watched;
  bool once = false;
  ReportArguments report;
  ListArguments list;
  DataOrderArguments data_order;
  DataFetchArguments data_fetch;
  ConfigArguments config;
  std::vector<std::string> help_words;
  std::string shell;
  WorkerArguments worker;
  std::vector<std::string> plugins;
  std::string new_plugin;
  int status = 0;
  run.command = sweep.command = checkpoint.command = joined_command(argc, argv);
  sweep.loop = program.loop;
  define_run(app, run, status);
  define_sweep(app, sweep, status);
  define_run_of_sweep(app, run_of_sweep, status);
  define_task_of_sweep(app, task_of_sweep, status);
  define_eval(app, eval);
  define_export(app, exported);
  define_sample(app, sample);
  define_checkpoint(app, checkpoint);
  define_plan(app, plan);
  define_what_if(app, what_if);
  define_verify(app, verify, status);
  define_replay(app, replayed, status);
  define_watch(app, watched, once);
  define_report(app, report);
  define_list(app, list, plugins);
  define_config(app, config);
  CLI::App* data = app.add_subcommand(
      "data", "Download data sets, and print the order of samples");
  data->require_subcommand(1);
  define_data_order(*data, data_order);
  if (program.fetch != nullptr) define_data_fetch(*data, data_fetch, program);
  define_help(app, help_words, plugins);
  define_completion(app, shell);
  define_new(app, new_plugin);
  define_worker(app, worker, status);
  try {
    if (argc > 1 && argv[1] == std::string_view("complete"))
      return complete(app, argc, argv);
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    return say_of(program.name,
                  fmt::format("{}{}; see --help", error.what(),
                              unknown_command(app, argc, argv)),
                  kMisused);
  } catch (const UnknownKey& error) {
    return say_of(program.name, with_suggestion(error), kMisused);
  } catch (const UserError& error) {
    return say_of(program.name, error.what(), kMisused);
  } catch (const Diverged& error) {
    return say_of(program.name, error.what(), kDivergedStatus);
  } catch (const Interrupted& error) {
    return say_of(program.name, error.what(), kInterruptedStatus);
  } catch (const std::exception& error) {
    return say_of(program.name, text_of(error), kFailed);
  }
  return status;
}

}  // namespace sluice
