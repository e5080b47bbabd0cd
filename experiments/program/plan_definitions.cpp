// The commands that predict schedules, times and bits, and compare them.
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "experiments/program/commands.h"
#include "experiments/program/definitions.h"
#include "experiments/program/number_options.h"

namespace sluice {

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
  command->add_flag("--cut", arguments.cut,
                    "measure the model layer by layer, and say which cut into "
                    "as many blocks has the fastest slowest one");
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
      ->check(positive_number());
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
      ->check(positive_number());
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
      "Repeat a run whose blocks ran free, or whose assistant drew samples\n"
      "ahead, from the record in its folder, in one thread, and compare it\n"
      "with the run's checkpoints (exit status 0: the same bits, 1: not).");
  command->add_option("run", folder, "the run's folder")->required();
  command->callback([&] { status = replay_command(folder); });
}

}  // namespace sluice
