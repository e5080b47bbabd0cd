// Machines that are described, and what blocks cost on them.
#include "experiments/planner/machine.h"

#include <string>

#include <gtest/gtest.h>

#include "lib/schedules/simulation/capacities.h"
#include "lib/schedules/simulation/speed.h"
#include "tests/experiments/helpers/program.h"

namespace sluice::planner::planner_machine_test {

class MachineFile : public Program {
 protected:
  Machine read(const std::string& text) {
    return read_machine(write("machine.toml", text));
  }
};

TEST_F(MachineFile, HasDevicesInARowAndLinksBetweenThem) {
  const Machine machine = read(
      "[[device]]\nname = 'gpu'\ncount = 2\nspeed = 8\nmemory = 1e9\n"
      "[[device]]\ncores = 4\n"
      "[link]\nlatency = 1e-4\n[link.2]\nbandwidth = 1e9\n");
  ASSERT_EQ(machine.devices.size(), 3U);
  EXPECT_EQ(machine.devices[1].name, "gpu 2");
  EXPECT_EQ(machine.devices[1].speed, 8);
  EXPECT_EQ(machine.devices[1].memory, 1e9);
  EXPECT_EQ(machine.devices[2].name, "device 3");
  EXPECT_EQ(machine.devices[2].cores, 4);
  ASSERT_EQ(machine.links.size(), 2U);
  EXPECT_EQ(machine.links[0].latency, 1e-4);
  EXPECT_EQ(machine.links[0].bandwidth, 0);
  EXPECT_EQ(machine.links[1].latency, 1e-4);
  EXPECT_EQ(machine.links[1].bandwidth, 1e9);
}

RunPlan plan_of(std::size_t blocks) {
  const Traits local{.cut = true, .from_above = false};
  return make_run_plan(std::vector<Traits>(blocks - 1, local), false);
}

Costs measured(std::size_t blocks) {
  Costs costs{.blocks = std::vector<BlockCosts>(
                  blocks, {.seconds = {{Op::forward, 1}, {Op::backward, 2}}})};
  costs.bytes.resize(blocks - 1, {.activation = 100});
  costs.in_one_block = 3. * static_cast<double>(blocks);
  return costs;
}

double seconds_on(const Machine& machine, std::size_t blocks,
                  std::int64_t threads = 1) {
  const RunPlan plan = plan_of(blocks);
  return steady_speed(plan, costs_on(machine, measured(blocks), threads),
                      capacities_of(plan, 2))
      .seconds_per_turn;
}

TEST(Machine, DealsOutConsecutiveBlocksEvenly) {
  const Machine machine{.devices = {{.speed = 1}, {.speed = 5}, {.speed = 2}}};
  using Devices = std::vector<std::size_t>;
  EXPECT_EQ(devices_of_blocks(machine, 1), Devices({1}));  // the fastest
  EXPECT_EQ(devices_of_blocks(machine, 2), Devices({0, 1}));
  EXPECT_EQ(devices_of_blocks(machine, 6), Devices({0, 0, 1, 1, 2, 2}));
}

TEST(Machine, WithFewerCoresThanBlocksGivesNoMoreThanItsCores) {
  EXPECT_NEAR(seconds_on({.devices = {{.cores = 2}}}, 4), 6, 0.03);
  EXPECT_NEAR(seconds_on({.devices = {{.cores = 4}}}, 4), 3, 1e-9);
  // Blocks of two threads take two cores each.
  EXPECT_NEAR(seconds_on({.devices = {{.cores = 4}}}, 4, 2), 6, 0.03);
}

TEST(Machine, ThatIsTwiceAsFastTakesHalf) {
  const Machine fast{.devices = {{.speed = 2, .cores = 2}}};
  const Costs costs = costs_on(fast, measured(2), 1);
  EXPECT_EQ(costs.in_one_block, 3);
  EXPECT_NEAR(seconds_on(fast, 2), 1.5, 1e-9);
}

TEST(Machine, TakesItsLinksBetweenDevicesOnly) {
  const Machine machine{.devices = {{.cores = 2}, {.cores = 2}},
                        .links = {{.bandwidth = 10}}};
  // 100 bytes at 10 a second, against 3 s of a block.
  EXPECT_NEAR(seconds_on(machine, 4), 10, 1e-9);
  const Machine one{.devices = {{.cores = 4}}};
  EXPECT_NEAR(seconds_on(one, 4), 3, 1e-9);
}

}  // namespace sluice::planner::planner_machine_test
