// `sluice sample`: a text from a run's language model.
#include <cstdio>

#include "experiments/program/commands.h"
#include "experiments/runs/folder/newest.h"
#include "experiments/runs/uses/evaluation.h"
#include "experiments/runs/uses/text_sampling.h"
#include "lib/base/error.h"

namespace sluice {

namespace {

void sample_found(const SampleArguments& arguments,
                  const EvaluationTarget& from) {
  ConfigArguments config = arguments.config;
  config.config = from.config;
  if (config.config.empty())
    throw UserError("{}: belongs to no run, whose config says what model it is",
                    arguments.path);
  // Where there is no text to follow, only an error, it isn't printed.
  bool is_there = false;
  const auto print_prompt = [&] {
    if (!is_there) std::fputs(arguments.sampling.prompt.c_str(), stdout);
    is_there = true;
  };
  sample_text(experiment_of(config), from.read_from, arguments.sampling,
              [&](char byte) {
                print_prompt();
                std::fputc(byte, stdout);
                std::fflush(stdout);
              });
  print_prompt();
  std::fputc('\n', stdout);
}

}  // namespace

void sample_command(const SampleArguments& arguments) {
  use_newest(
      [&] { return find_evaluated(arguments.path); },
      [](const EvaluationTarget& found) { return found.read_from; },
      [&](const EvaluationTarget& found) { sample_found(arguments, found); });
}

}  // namespace sluice
