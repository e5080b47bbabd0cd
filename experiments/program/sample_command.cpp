// `sluice sample`: a text from a run's language model.
#include <cstdio>

#include "experiments/program/commands.h"
#include "experiments/runs/evaluation.h"
#include "experiments/runs/text_sampling.h"
#include "lib/base/error.h"

namespace sluice {

void sample_command(const SampleArguments& arguments) {
  const Evaluated from = find_evaluated(arguments.path);
  ConfigArguments config = arguments.config;
  config.config = from.config;
  if (config.config.empty())
    throw UserError("{}: belongs to no run, whose config says what model it is",
                    arguments.path);
  std::fputs(arguments.sampling.prompt.c_str(), stdout);
  sample_text(experiment_of(config), from.weights, arguments.sampling,
              [](char byte) {
                std::fputc(byte, stdout);
                std::fflush(stdout);
              });
  std::fputc('\n', stdout);
}

}  // namespace sluice
