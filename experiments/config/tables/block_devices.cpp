#include "experiments/config/tables/block_devices.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "lib/base/processors.h"
#include "lib/schedules/orders/executors.h"
#include "lib/tensors/device.h"

namespace sluice {
namespace {

std::int64_t threads_for(std::int64_t blocks) {
  return std::max<std::int64_t>(1, usable_processors() / blocks);
}

std::vector<std::string> devices_of(const ConfigNode& device, int blocks,
                                    const Fields& top) {
  std::vector<std::string> names;
  if (const auto* name = std::get_if<std::string>(&device.value)) {
    names.assign(static_cast<std::size_t>(blocks), *name);
  } else if (const auto* list = std::get_if<ConfigNode::Array>(&device.value)) {
    for (const ConfigNode& item : *list)
      if (const auto* one = std::get_if<std::string>(&item.value))
        names.push_back(*one);
  }
  if (std::ssize(names) != blocks)
    top.reject("device", fmt::format("is a name, or a list of one name for "
                                     "each of the {} blocks",
                                     blocks));
  for (const std::string& name : names) check_device_name(name);
  return names;
}

}  // namespace

void derive_for_blocks(const Fields& top, Experiment& experiment) {
  experiment.devices = devices_of(experiment.device, experiment.blocks(), top);
}

void derive_threads(Experiment& experiment) {
  if (experiment.threads == 0)
    experiment.threads = threads_for(executors_of(experiment.plans.front()));
}

}  // namespace sluice
