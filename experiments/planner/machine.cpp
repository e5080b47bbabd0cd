#include "experiments/planner/machine.h"

#include <algorithm>

#include <fmt/format.h>

#include "experiments/config/files/toml.h"
#include "experiments/config/per_block_tables.h"
#include "lib/base/error.h"
#include "lib/base/processors.h"

namespace sluice::planner {
namespace {

void read_device(Fields& fields, Machine& machine) {
  PlannedDevice device;
  std::int64_t count = 1;
  fields.key("name", device.name, {.text = "what to call it in tables"});
  fields.key("count", count,
             {.text = "number of devices like this one, in a row",
              .min = 1,
              .max = 4096});
  fields.key("speed", device.speed,
             {.text = "speed relative to this machine: 2 halves all durations",
              .min = 1e-6,
              .max = 1e6});
  fields.key("flops", device.flops,
             {.text = "floating-point operations per second that it attains "
                      "in training, two to a multiply-add: durations then "
                      "follow from the layers' shapes, and nothing is "
                      "measured; 0: measured here, by speed",
              .unit = "1/s",
              .min = 0});
  if (device.flops > 0 && fields.has("speed"))
    fields.reject("flops",
                  "goes without speed, which is that of measured "
                  "durations");
  fields.key("cores", device.cores,
             {.text = "number of cores; a block uses one for each of its "
                      "threads, and waits when too few are free",
              .min = 1,
              .max = 1e6});
  fields.key(
      "memory", device.memory,
      {.text = "memory of the device; 0: unknown", .unit = "bytes", .min = 0});
  for (std::int64_t i = 0; i < count; ++i) {
    machine.devices.push_back(device);
    if (device.name.empty())
      machine.devices.back().name =
          fmt::format("device {}", machine.devices.size());
    else if (count > 1)
      machine.devices.back().name += fmt::format(" {}", i + 1);
  }
}

void read_link(Fields& fields, LinkCosts& link) {
  fields.key("latency", link.latency,
             {.text = "time that a message travels",
              .unit = "s",
              .min = 0,
              .max = 1e6});
  fields.key("bandwidth", link.bandwidth,
             {.text = "bandwidth of each direction; 0: unlimited",
              .unit = "bytes/s",
              .min = 0});
}

std::vector<KeyDoc> read_fields(Fields& top, Machine& machine) {
  top.list(
      "device",
      "a device that blocks compute on; consecutive blocks are spread evenly "
      "over the devices",
      [&](Fields& fields, std::int64_t index) {
        Machine unused;
        read_device(fields, index < 0 ? unused : machine);
      });
  ConfigNode written;
  top.key("link", written, "table",
          {.text = "between neighbouring devices; [link.2] is that between "
                   "devices 2 and 3"});
  top.section("exchange",
              "between the replicas of a block: any two of them, all at once",
              [&](Fields& fields) { read_link(fields, machine.exchange); });
  top.finish();
  const auto count = std::max<std::int64_t>(0, std::ssize(machine.devices) - 1);
  const ConfigNode* table = written.value.index() == 0 ? nullptr : &written;
  const ConfigNode tables = per_block_tables(table, count, {}, "link").tables;
  Fields links(&tables, "link");
  machine.links.resize(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    links.section(std::to_string(i + 1), "", [&](Fields& fields) {
      read_link(fields, machine.links[static_cast<std::size_t>(i)]);
    });
  links.finish();
  return top.manual();
}

/// What durations are divided by: those of this machine, or operations.
double rate_of(const PlannedDevice& device) {
  return device.flops > 0 ? device.flops : device.speed;
}

/// Operations become seconds; measured seconds stay, and the block is faster.
void set_device(const PlannedDevice& device, BlockCosts& costs) {
  if (device.flops == 0) {
    costs.slowness /= device.speed;
    return;
  }
  for (double& seconds : costs.seconds) seconds /= device.flops;
  costs.head /= device.flops;
  if (costs.replay) *costs.replay /= device.flops;
}

}  // namespace

Machine this_machine() {
  return {.devices = {{.name = "this machine", .cores = usable_processors()}},
          .is_this = true};
}

Machine read_machine(const std::string& path) {
  const ConfigNode file = read_toml_file(path);
  Machine machine;
  Fields top(&file, "");
  read_fields(top, machine);
  if (machine.devices.empty())
    throw UserError("{}: describes no [[device]]; see sluice help plan", path);
  for (const PlannedDevice& device : machine.devices)
    if (machine.computes() && device.flops == 0)
      throw UserError("{}: {} has no flops, and others have: give it to all",
                      path, device.name);
  return machine;
}

bool Machine::computes() const {
  return std::any_of(
      devices.begin(), devices.end(),
      [](const PlannedDevice& device) { return device.flops > 0; });
}

std::vector<KeyDoc> machine_manual() {
  Machine unused;
  Fields top(nullptr, "");
  std::vector<KeyDoc> manual = read_fields(top, unused);
  LinkCosts link;
  Fields fields(nullptr, "link");
  read_link(fields, link);
  manual.insert(manual.end(), fields.manual().begin(), fields.manual().end());
  return manual;
}

std::int64_t blocks_at_once(const PlannedDevice& device, std::int64_t threads) {
  return std::max<std::int64_t>(
      1, device.cores / std::max<std::int64_t>(1, threads));
}

std::vector<std::size_t> devices_of_blocks(const Machine& machine,
                                           std::size_t blocks) {
  const auto& devices = machine.devices;
  if (blocks == 1) {
    const auto fastest = std::max_element(
        devices.begin(), devices.end(),
        [](const PlannedDevice& left, const PlannedDevice& right) {
          return rate_of(left) < rate_of(right);
        });
    return {static_cast<std::size_t>(fastest - devices.begin())};
  }
  const std::size_t used = std::min(blocks, devices.size());
  std::vector<std::size_t> of(blocks);
  for (std::size_t k = 0; k < blocks; ++k) of[k] = k * used / blocks;
  return of;
}

Costs costs_on(const Machine& machine, Costs costs, std::int64_t threads) {
  const std::size_t blocks = costs.blocks.size();
  const std::vector<std::size_t> device = devices_of_blocks(machine, blocks);
  costs.shared.clear();
  for (const PlannedDevice& each : machine.devices)
    costs.shared.push_back({.cores = blocks_at_once(each, threads)});
  const LinkCosts within{costs.latency, costs.bandwidth};
  costs.links.clear();
  for (std::size_t k = 0; k < blocks; ++k) {
    set_device(machine.devices[device[k]], costs.blocks[k]);
    if (k < costs.beside.size())
      set_device(machine.devices[device[k]], costs.beside[k]);
    costs.shared[device[k]].blocks.push_back(static_cast<int>(k) + 1);
    if (k + 1 < blocks)
      costs.links.push_back(
          device[k] == device[k + 1] ? within : machine.links.at(device[k]));
  }
  if (!machine.is_this) costs.exchange_link = machine.exchange;
  costs.in_one_block /=
      rate_of(machine.devices[devices_of_blocks(machine, 1)[0]]);
  return costs;
}

}  // namespace sluice::planner
