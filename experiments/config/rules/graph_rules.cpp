#include "experiments/config/rules/graph_rules.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <fmt/format.h>

#include "lib/base/by_block.h"
#include "lib/tensors/device.h"
#include "lib/tensors/gpu/device_graph.h"

namespace sluice {
namespace {

bool has_no_gpu(const Experiment& experiment) {
  return !uses_gpus(experiment);
}

/// Where the device is missing, the run says so by itself.
bool has_no_graphs(const Experiment& experiment) {
  return std::any_of(experiment.devices.begin(), experiment.devices.end(),
                     [](const std::string& name) {
                       const c10::Device device(name);
                       return !device.is_cpu() &&
                              c10::impl::hasDeviceGuardImpl(device.type()) &&
                              !can_capture_graphs(device);
                     });
}

/// The GPU of block k; names without a number are dealt out (device_for()).
std::string gpu_of(const Experiment& experiment, int block) {
  const std::string& name = by_block(experiment.devices, block);
  const c10::Device device(name);
  if (device.has_index()) return name;
  const int gpus = std::max(count_gpus(device.type()), 1);
  return fmt::format("{}:{}", name, (block - 1) % gpus);
}

/// Whether one process has several blocks on a GPU: they share its stream, and
/// LibTorch's thread for backwards.
bool shares_gpus_between_threads(const Experiment& experiment) {
  if (experiment.engine != Engine::threads || !uses_gpus(experiment))
    return false;
  std::set<std::string> seen;
  for (int block = 1; block <= experiment.blocks(); ++block)
    if (is_on_gpu(experiment, block) &&
        !seen.insert(gpu_of(experiment, block)).second)
      return true;
  return experiment.replicas.count > 1;
}

bool splits_backwards(const Experiment& experiment) {
  for (const RunPlan& plan : experiment.plans)
    for (const BlockPlan& block : plan.blocks)
      for (const Action& action : actions_of(block, {.end_turn = 1}))
        if (action.op == Op::backward_input) return true;
  return false;
}

/// Code that Sluice doesn't know may do on the host, or draw, what a graph
/// would do once for all batches.
bool has_unknown_layers(const Experiment& experiment) {
  const ConfigNode* const model = experiment.resolved.find("model");
  const ConfigNode* const name =
      model == nullptr ? nullptr : model->find("name");
  return !experiment.data || name == nullptr ||
         *name == ConfigNode{.value = std::string("torchscript")};
}

bool draws_by_generator(const Experiment& experiment) {
  return experiment.masks == Masks::generator;
}

bool runs_layers_again(const Experiment& experiment) {
  return experiment.checkpoint_layers > 0;
}

struct Refusal {
  bool (*holds)(const Experiment& experiment) = nullptr;
  std::string_view why;  ///< with the remedy
};
constexpr std::array kRefusals = {
    Refusal{has_no_gpu,
            "no block lies on a GPU: set device = \"cuda\", or leave it out"},
    Refusal{has_no_graphs,
            "this program captures graphs on CUDA's GPUs alone, with LibTorch "
            "2.13 or later, or where it was built with nvcc: leave it out, or "
            "build it so"},
    Refusal{shares_gpus_between_threads,
            "the threads of blocks on one GPU share its stream, so that one "
            "would disturb what the other captures: set engine = "
            "\"processes\", or give each block a GPU of its own"},
    Refusal{splits_backwards,
            "a graph takes a batch back as a whole, and this pipeline.order "
            "in two halves: choose another order, or leave it out"},
    Refusal{has_unknown_layers,
            "layers of your own may do on the host what a graph would do once "
            "for all batches: leave it out, or choose one of Sluice's models"},
    Refusal{draws_by_generator,
            "masks = 1 draws on the CPU what the graph needs: set masks = 2, "
            "or leave it out"},
    Refusal{runs_layers_again,
            "a graph keeps what checkpoint_layers would make again: leave one "
            "of the two out"},
};

}  // namespace

void check_graphs(const Experiment& experiment, const Fields& top) {
  if (!experiment.graphs) return;
  for (const Refusal& refusal : kRefusals)
    if (refusal.holds(experiment))
      top.reject("graphs", std::string(refusal.why));
}

}  // namespace sluice
