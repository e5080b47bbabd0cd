#include "experiments/program/data_commands.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <iterator>
#include <string>

#include <fmt/format.h>

#include "experiments/data/data_check.h"
#include "experiments/data/found.h"
#include "experiments/runs/seats/assembly.h"
#include "experiments/runs/seats/keyed_tensors.h"
#include "experiments/runs/seats/seat_sources.h"
#include "lib/base/error.h"
#include "lib/base/files/user_text.h"
#include "lib/checkpoints/safetensors.h"

namespace sluice {
namespace {

KeyedKinds kinds_of(const DataOrderArguments& arguments) {
  KeyedKinds kinds;
  for (const std::string& name : arguments.with) {
    kinds.masks = kinds.masks || name == "masks";
    kinds.labels = kinds.labels || name == "labels";
    kinds.projections = kinds.projections || name == "projections";
  }
  if (arguments.turns == 0 && (kinds.masks || kinds.labels))
    throw UserError(
        "--with masks or labels wants --turns N: those of the first N batches "
        "are kept in memory until they are written");
  return kinds;
}

/// Numbers of drawn tensors: "2 masks, 2 labels, 0 projections".
std::string counted(const NamedTensors& tensors, const KeyedKinds& kinds) {
  std::string text;
  const auto count = [&](bool is_wanted, const std::string& kind) {
    if (!is_wanted) return;
    const auto number = std::count_if(
        tensors.begin(), tensors.end(),
        [&](const auto& named) { return named.first.starts_with(kind + "."); });
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", number, kind);
  };
  count(kinds.masks, "masks");
  count(kinds.labels, "labels");
  count(kinds.projections, "projections");
  return text;
}

void write_keyed(const Experiment& experiment,
                 const DataOrderArguments& arguments, const KeyedKinds& kinds,
                 std::int64_t turns) {
  if (arguments.with.empty()) return;
  const NamedTensors tensors = keyed_tensors(experiment, turns, kinds);
  write_safetensors(arguments.file, tensors);
  say("{}: {}\n", arguments.file, counted(tensors, kinds));
}

/// Refuses masks of scripted models: the operations of a script draw unseen.
void check_masks_are_seen(const Experiment& experiment,
                          const KeyedKinds& kinds) {
  const ConfigNode* name = experiment.resolved.find("model")->find("name");
  if (kinds.masks && name != nullptr &&
      *name == ConfigNode{.value = std::string("torchscript")})
    throw UserError(
        "--with masks: the dropouts of a TorchScript file draw theirs within "
        "its graph, where they can't be read: leave masks out");
}

}  // namespace

void data_order_command(const DataOrderArguments& arguments) {
  const KeyedKinds kinds = kinds_of(arguments);
  const Experiment experiment = experiment_of(arguments.config);
  if (experiment.assist.is_on())
    throw UserError(
        "data.assist.acceptance = {}: which samples are trained on follows "
        "from the losses of the run; set it to 0 for the order in which they "
        "come up",
        experiment.assist.acceptance);
  check_masks_are_seen(experiment, kinds);
  const auto source = training_source(experiment);
  // In a turn each replica is dealt one batch.
  const std::int64_t turns =
      experiment.replicas.deals().before(experiment.length.turns);
  const std::int64_t end =
      arguments.turns > 0 ? std::min(arguments.turns, turns) : turns;
  fmt::memory_buffer line;
  for (std::int64_t t = 0; t < end; ++t) {
    line.clear();
    fmt::format_to(std::back_inserter(line), "{} {}", t, source->epoch(t));
    for (const std::int64_t position : source->positions(t))
      fmt::format_to(std::back_inserter(line), " {}", position);
    line.push_back('\n');
    std::fwrite(line.data(), 1, line.size(), stdout);
  }
  write_keyed(experiment, arguments, kinds, end);
}

void data_check_command(const DataCheckArguments& arguments) {
  const Experiment experiment = experiment_of(arguments.config);
  const DataSet& data = *experiment.data;
  const auto print = [](const std::string& line) { fmt::print("{}\n", line); };
  const DataCheckResult checked = check_data(
      data, print,
      arguments.list ? print : std::function<void(const std::string&)>());
  const char* kind = data.walk ? "files" : "samples";
  print(found_line(data));
  if (checked.damaged > 0 && !data.leaves_out_damaged)
    throw UserError(
        "{} of {} {} can't be trained on: mend them or take them "
        "out{}",
        checked.damaged, checked.read, kind,
        data.walk ? ", or set data.on_bad = \"skip\"" : "");
  print(fmt::format(
      "{} {} were read to the end; {}", checked.read, kind,
      checked.damaged == 0
          ? "none is damaged"
          : fmt::format("{} are damaged and left out", checked.damaged)));
}

}  // namespace sluice
