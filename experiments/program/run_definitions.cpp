// The commands that train.
#include <CLI/CLI.hpp>

#include "experiments/program/commands.h"
#include "experiments/program/definitions.h"
#include "experiments/program/number_options.h"
#include "experiments/runs/processes/join_run.h"
#include "experiments/runs/processes/stop_signals.h"
#include "experiments/runs/processes/worker_process.h"
#include "experiments/sweep/array_task.h"
#include "experiments/sweep/run_process.h"
#include "lib/base/own_image.h"

namespace sluice {

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
  command->add_option("--door", arguments.door,
                      "HOST or HOST:PORT of this host at which replicas of "
                      "other hosts may join (sluice join)");
  add_plugin_option(*command, arguments.config.plugins);
  command->callback([&] { status = run_command(arguments); });
}

void define_join(CLI::App& app, JoinArguments& arguments, int& status) {
  CLI::App* command = app.add_subcommand(
      "join",
      "Add a replica to a run that goes on, at the place of one that it has "
      "lost or\n"
      "that replicas.start_with has left free. It begins with the weights of "
      "the\n"
      "centre, and ends with the run; Ctrl-C takes it out again.");
  command->add_option("run", arguments.folder, "the run's folder")->required();
  command->add_option("--wait", arguments.wait_seconds,
                      "seconds to wait for a free place; default: 10");
  command->add_option("--inject", arguments.faults,
                      "faults to inject, as in 'kill block 6 @ turn 50'; see "
                      "sluice help inject");
  command->callback([&] {
    arguments.program = kOwnImage;
    StopSignals signals;
    status = join_run(arguments, signals);
  });
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
      ->check(positive_number());
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

void define_worker(CLI::App& app, WorkerArguments& arguments, int& status) {
  CLI::App* command = app.add_subcommand("worker")->group("");
  command->add_option("--dir", arguments.folder)->required();
  command->add_option("--block", arguments.block)->required();
  command->add_option("--join", arguments.address)->required();
  command->add_option("--parent", arguments.parent)->required();
  command->add_option("--resume", arguments.resume);
  command->add_option("--inject", arguments.faults);
  command->add_option("--local-rank", arguments.local_rank);
  command->add_flag("--joins", arguments.joins);
  command->callback([&] { status = run_worker_process(arguments); });
}

}  // namespace sluice
