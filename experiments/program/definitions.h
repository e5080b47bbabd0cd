#pragma once

#include <string>
#include <vector>

#include "experiments/program/command_line.h"
#include "experiments/program/commands.h"
#include "experiments/program/data_commands.h"
#include "experiments/runs/processes/join_run.h"
#include "experiments/runs/processes/worker_process.h"
#include "experiments/sweep/array_task.h"
#include "experiments/sweep/run_process.h"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's
class App;
}  // namespace CLI

namespace sluice {

// How the command line is read: each function adds a command, with its options,
// to the program or to the command above it. Parsing fills the arguments, and
// then does what the command says; `status` is the exit status. The arguments
// must live until then.

/// Options of several commands.
void add_plugin_option(CLI::App& command, std::vector<std::string>& plugins);
void add_config(CLI::App& command, ConfigArguments& arguments);

void define_run(CLI::App& app, RunArguments& arguments, int& status);
void define_join(CLI::App& app, JoinArguments& arguments, int& status);
void define_sweep(CLI::App& app, SweepArguments& arguments, int& status);

/// The hidden subcommand that the launcher of a sweep starts.
void define_run_of_sweep(CLI::App& app, sweep::RunProcessArguments& arguments,
                         int& status);

/// The hidden subcommand that the batch script of a sweep's job array starts.
void define_task_of_sweep(CLI::App& app, sweep::ArrayTaskArguments& arguments,
                          int& status);

void define_eval(CLI::App& app, EvalArguments& arguments);
void define_export(CLI::App& app, ExportArguments& arguments);
void define_sample(CLI::App& app, SampleArguments& arguments);
void define_checkpoint(CLI::App& app, CheckpointArguments& arguments);
void define_plan(CLI::App& app, PlanArguments& arguments);
void define_what_if(CLI::App& app, WhatIfArguments& arguments);
void define_verify(CLI::App& app, VerifyArguments& arguments, int& status);
void define_replay(CLI::App& app, std::string& folder, int& status);
void define_watch(CLI::App& app, std::string& folder, bool& once);
void define_report(CLI::App& app, ReportArguments& arguments);
void define_list(CLI::App& app, ListArguments& arguments,
                 std::vector<std::string>& plugins);
void define_config(CLI::App& app, ConfigArguments& arguments);
void define_data_order(CLI::App& data, DataOrderArguments& arguments);
void define_data_check(CLI::App& data, DataCheckArguments& arguments);
void define_data_fetch(CLI::App& data, DataFetchArguments& arguments,
                       const ProgramOptions& program);
void define_new(CLI::App& app, std::string& name);
void define_doctor(CLI::App& app, const ProgramOptions& program);

/// Hidden subcommands: what Python calls before it loads a scripted network,
/// and what the launcher starts for each block.
void define_check_script(CLI::App& app, std::string& file);
void define_worker(CLI::App& app, WorkerArguments& arguments, int& status);

}  // namespace sluice
