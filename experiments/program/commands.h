#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/config/experiment.h"
#include "experiments/program/own_loop.h"
#include "experiments/runs/uses/text_sampling.h"

namespace sluice {

// The commands of the `sluice` program, after its command line was parsed.

struct ConfigArguments {
  std::string config;                     ///< a TOML file; empty: all defaults
  std::vector<std::string> overrides;     ///< "a.b=c"
  std::vector<std::string> plugins = {};  ///< files beside the config's
};
ConfigNode config_of(const ConfigArguments& arguments);
Experiment experiment_of(const ConfigArguments& arguments);

/// Reads the experiment of a config, and says on stderr what of the config is
/// left out (left_out.h).
Experiment read_and_tell(const ConfigNode& config);
/// Experiment of a run that is to begin, or is planned: with the checks of
/// start_checks.h. Throws UserError where one refuses it.
Experiment read_to_start(const ConfigNode& config);

/// Where data files are looked for: SLUICE_DATA, or empty.
std::string data_root();

struct RunArguments {
  ConfigArguments config;  ///< the file may be a card too
  std::string resume;      ///< the folder of a run to continue; or empty
  std::string folder;
  bool overwrite = false;
  bool fast_dev_run = false;      ///< see shortened()
  std::vector<std::string> only;  ///< runs of a card; empty: all
  std::string faults;             ///< to make happen; or empty
  std::string door;     ///< where replicas of other hosts join; or empty
  std::string command;  ///< the whole command line
};
/// Returns the exit status: of a card 0 passed, 3 failed, 4 not all done.
int run_command(const RunArguments& arguments);

/// The arguments of a run that tries out everything in a few turns: it trains,
/// evaluates once on a few samples, saves, and replaces the run of its name in
/// runs/fast-dev-run, unless there is a --dir. The whole config has been read,
/// phases of its timetable too, which the short run does without; overrides of
/// the user's hold there. Throws UserError for a card, and for what else a run
/// doesn't take.
RunArguments shortened(const RunArguments& arguments);

struct SweepArguments {
  ConfigArguments config;  ///< overrides may be axes: "a.b=c,d"
  std::string seeds;       ///< "5", or "1,5,9"; or empty
  std::optional<std::int64_t> samples;
  bool zip = false;
  std::string folder;
  std::optional<int> jobs;  ///< 1; with Slurm as many as there is room for
  std::string launcher = "local";
  std::string slurm;  ///< options of sbatch
  bool no_wait = false;
  bool ask_tell = false;  ///< a driver proposes the runs
  std::string on_failure = "report";
  std::vector<std::string> done_rows;  ///< files
  bool again = false;
  bool dry_run = false;
  std::string command;  ///< the whole command line
  /// Of a program with a loop of its own; empty: a config's runs.
  OwnLoop loop = {};
};
/// The exit status: 0 all is done, 3 some runs failed, 4 not all is done.
int sweep_command(const SweepArguments& arguments);

struct EvalArguments {
  std::string path;         ///< a run, a checkpoint or a safetensors file
  ConfigArguments config;   ///< the config's file: empty, that of the run
  bool train = false;       ///< the training split, without augmentation
  bool validation = false;  ///< the validation split
  std::string logits;       ///< a file for those of the first samples; or empty
  std::int64_t samples = 64;  ///< of that file
};
void eval_command(const EvalArguments& arguments);

struct SampleArguments {
  std::string path;        ///< a run, or a checkpoint of one
  ConfigArguments config;  ///< its file is the run's own
  TextSampling sampling;
};
/// Prints the prompt and what the model makes of it.
void sample_command(const SampleArguments& arguments);

struct ExportArguments {
  std::string path;         ///< a run, or a checkpoint of one
  ConfigArguments config;   ///< its file is the run's own
  std::string checkpoint;   ///< "best", "last", "turn-000120"; or empty
  std::string file;         ///< empty: model.safetensors in the run's folder
  std::string names;        ///< a table of public names; empty: our own
  std::string torchscript;  ///< a file to be written instead; or empty
};
void export_command(const ExportArguments& arguments);

struct CheckpointArguments {
  std::string folder;   ///< of a run
  bool drain = false;   ///< its last one; else all are listed
  std::string command;  ///< the whole command line
};
void checkpoint_command(const CheckpointArguments& arguments);

struct VerifyArguments {
  ConfigArguments config;
  std::int64_t turns = 20;  ///< or an epoch's, if that is less
  std::vector<std::string> engines = {"virtual", "threads", "processes"};
  std::vector<std::string> changes;  ///< "ENGINE:KEY=VALUE": for that one only
};
/// The exit status: 0 when all gave the same bits, else 1.
int verify_command(const VerifyArguments& arguments);

/// `folder`: of a run whose blocks ran free. The exit status: 0 when the replay
/// gave the bits of the run's checkpoints, else 1.
int replay_command(const std::string& folder);

struct PlanArguments {
  ConfigArguments config;
  std::string actions_file;  ///< schedules written by hand; empty: the config's
  std::int64_t turns = 4;
  /// Values that replace keys of the config's [virtual], by key and as typed;
  /// "1,2,1" gives one number per block.
  std::map<std::string, std::string> lists = {};
  std::map<std::string, std::string> numbers = {};
  std::vector<std::string> slow = {};  ///< "2x1.5"
  bool calibrate = false;
  std::string trace;    ///< a file to write; or empty
  bool list = false;    ///< the actions alone, as --actions reads them
  std::string machine;  ///< a file that describes one; empty: this one
  bool cut = false;     ///< measure layers instead, and cut by that
  /// Compare methods and numbers of blocks instead.
  bool compare = false;
  std::vector<std::string> methods;  ///< empty: the common ones
  std::vector<std::int64_t> blocks = {2, 4};
  std::vector<std::int64_t> replicas = {1};
  double seconds = 60;
};
void plan_command(const PlanArguments& arguments);

struct WhatIfArguments {
  std::string folder;  ///< of a run that has a trace.json
  /// Else than they were; empty: as recorded.
  std::string blocks;  ///< "4", or "0-3,4-"
  std::string machine;
  std::string latency;
  std::string bandwidth;
  std::vector<std::string> slow;
};
void what_if_command(const WhatIfArguments& arguments);

struct ReportArguments {
  std::vector<std::string> folders;  ///< of runs, sweeps, or folders of those
  std::string page;      ///< the HTML file; empty: report.html in the first
  bool untimed = false;  ///< without what was measured in time or memory
  std::string target;    ///< target_from(); empty: none
};
void report_command(const ReportArguments& arguments);

struct ListArguments {
  std::string kind;   ///< of table, or a published name; empty: the tables
  std::string name;   ///< of a row to describe; empty: all in a line each
  bool axes = false;  ///< of methods: axes_table()
};
void list_command(const ListArguments& arguments);

/// Prints what a config resolves to, as TOML that can be run: every key with
/// its value. Without a config that of the defaults.
void config_command(const ConfigArguments& arguments);

/// Prints what is built in and what the host has, with the remedy for what is
/// missing. data_sets_in: lines on the data sets in a folder (may be "").
void doctor_command(std::string (*data_sets_in)(const std::string& root));

/// Prints the help page on the predictions of plan --compare and what-if.
void help_plan_command();

}  // namespace sluice
