#include "experiments/program/command_groups.h"

#include <array>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace sluice {
namespace {

struct GroupedCommand {
  std::string_view name;
  std::string_view group;
  std::string_view example;  ///< what follows the program's name
};

constexpr std::string_view kTrain = "Train";
constexpr std::string_view kResults = "Look at results";
constexpr std::string_view kPredict = "Predict and check";
constexpr std::string_view kFind = "Look things up";
constexpr std::string_view kOwn = "Bring your own";

constexpr std::array<GroupedCommand, 20> kCommands = {{
    {"run", kTrain, "run CONFIG optimizer.lr=0.01 --dir runs/mine"},
    {"sweep", kTrain, "sweep CONFIG optimizer.lr=0.1,0.01 --seeds 3"},
    {"join", kTrain, "join runs/mine"},
    {"watch", kResults, "watch runs/mine"},
    {"report", kResults, "report runs"},
    {"eval", kResults, "eval runs/mine --validation"},
    {"checkpoint", kResults, "checkpoint runs/mine"},
    {"export", kResults, "export runs/mine --out model.safetensors"},
    {"sample", kResults, "sample runs/mine --prompt 'To be'"},
    {"plan", kPredict, "plan CONFIG --compare"},
    {"what-if", kPredict, "what-if runs/mine --latency 0.001"},
    {"verify", kPredict, "verify CONFIG"},
    {"replay", kPredict, "replay runs/mine"},
    {"list", kFind, "list methods delayed_gradient"},
    {"help", kFind, "help config optimizer.lr"},
    {"config", kFind, "config CONFIG blocks=2"},
    {"doctor", kFind, "doctor"},
    {"completion", kFind, "completion bash"},
    {"data", kOwn, "data fetch mnist --root data"},
    {"new", kOwn, "new plugin mine"},
}};

}  // namespace

void group_commands(CLI::App& app, std::string_view program) {
  for (CLI::App* command : app.get_subcommands({}))
    for (const GroupedCommand& each : kCommands)
      if (command->get_name() == each.name) {
        command->group(std::string(each.group));
        command->footer(fmt::format("\nExample: {} {}", program, each.example));
      }
}

}  // namespace sluice
