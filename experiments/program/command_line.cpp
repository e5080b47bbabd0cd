#include "experiments/program/command_line.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/config/manual/catalog.h"
#include "experiments/config/tables/plugin_keys.h"
#include "experiments/program/command_groups.h"
#include "experiments/program/commands.h"
#include "experiments/program/completion.h"
#include "experiments/program/data_commands.h"
#include "experiments/program/definitions.h"
#include "experiments/program/help_topics.h"
#include "experiments/runs/folder/provenance.h"
#include "experiments/runs/processes/stop_signals.h"
#include "experiments/runs/processes/worker_process.h"
#include "experiments/runs/sinks/divergence.h"
#include "experiments/sweep/array_task.h"
#include "experiments/sweep/run_process.h"
#include "lib/base/error.h"
#include "lib/base/files/user_text.h"
#include "lib/base/nearest.h"
#include "lib/base/printable.h"
#include "lib/base/process_start.h"
#include "lib/checkpoints/finite.h"
#include "lib/engines/control.h"

namespace sluice {
namespace {

/// Exit statuses: 0 done, 1 a worker or the program failed, 2 an error that the
/// user can correct, kDivergedStatus for a run that diverged and for weights
/// that aren't finite; for cards and sweeps also those of run_command() and
/// sweep_command().
constexpr int kFailed = 1;
constexpr int kMisused = 2;

std::string joined_command(int argc, char** argv) {
  std::string command;
  for (int i = 0; i < argc; ++i)
    command += (i == 0 ? "" : " ") + std::string(argv[i]);
  return command;
}

/// Commands that the help lists; the others are for the program itself.
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

/// Prints help about a command, or one below it: "data order".
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

/// What to do first, for who types the program's name alone.
constexpr const char* kFirstSteps =
    "Sluice trains neural networks that are cut into blocks.\n\n"
    "  {0} doctor                 what this build and this host can do\n"
    "  {0} list methods           methods, each in a line\n"
    "  {0} help METHOD            one of them, and a config to start with\n"
    "  {0} run CONFIG             train; then: report FOLDER\n"
    "  {0} sweep CONFIG lr=1,2    many runs, compared over seeds\n"
    "  {0} --help                 all commands\n";

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

/// A text with what a file of a stranger may have brought in, as a line that
/// can be read.
std::string in_short(const std::string& text) {
  constexpr std::size_t kBegin = 6'000;
  constexpr std::size_t kEnd = 1'000;
  if (text.size() <= kBegin + kEnd) return text;
  return fmt::format("{} [...] {}", text.substr(0, kBegin),
                     text.substr(text.size() - kEnd));
}

int say_of(const std::string& program, const std::string& text, int status) {
  say("{}: {}\n", program, in_short(printable(text)));
  return status;
}

int status_of_command(int argc, char** argv, const ProgramOptions& program) {
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
  DataCheckArguments data_check;
  DataFetchArguments data_fetch;
  ConfigArguments config;
  std::vector<std::string> help_words;
  std::string shell;
  JoinArguments joining;
  WorkerArguments worker;
  std::vector<std::string> plugins;
  std::string new_plugin;
  std::string checked_script;
  int status = 0;
  run.command = sweep.command = checkpoint.command = joined_command(argc, argv);
  sweep.loop = program.loop;
  define_run(app, run, status);
  define_join(app, joining, status);
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
      "data", "Download data sets, check them, and print the order of samples");
  data->require_subcommand(1);
  define_data_order(*data, data_order);
  define_data_check(*data, data_check);
  if (program.fetch != nullptr) define_data_fetch(*data, data_fetch, program);
  if (program.fetched != nullptr) define_doctor(app, program);
  define_help(app, help_words, plugins);
  define_completion(app, shell);
  define_new(app, new_plugin);
  define_check_script(app, checked_script);
  define_worker(app, worker, status);
  group_commands(app, program.name);
  try {
    if (argc > 1 && argv[1] == std::string_view("complete"))
      return complete(app, argc, argv);
    if (argc == 1 && program.fetched != nullptr) {
      fmt::print(kFirstSteps, program.name);
      return 0;
    }
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
  } catch (const DivergenceError& error) {
    return say_of(program.name, error.what(), kDivergedStatus);
  } catch (const NonFiniteError& error) {
    return say_of(program.name, error.what(), kDivergedStatus);
  } catch (const InterruptError& error) {
    return say_of(program.name, error.what(), kInterruptedStatus);
  } catch (const std::exception& error) {
    const auto* system = dynamic_cast<const std::system_error*>(&error);
    if (system == nullptr || std::ferror(stdout) == 0)
      return say_of(program.name, text_of(error), kFailed);
    note_output_failure(system->code().value());  // fmt's; told at the end
  }
  return status;
}

}  // namespace

int run_command_line(int argc, char** argv, const ProgramOptions& program) {
  const int status = status_of_command(argc, argv, program);
  try {
    finish_output();
  } catch (const Error& error) {
    return say_of(program.name, error.what(), status == 0 ? kFailed : status);
  }
  return status;
}

}  // namespace sluice
