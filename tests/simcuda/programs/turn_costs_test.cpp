// A ratchet on what a turn costs on a GPU beside its arithmetic: launches,
// waits of the host, copies and events of a block in the middle, counted on the
// simulated GPU, so the same on every machine. The limits are what was counted
// last; a change that needs less should lower them, one that needs more has to
// say why.
//
// SLUICE_RATCHET=print writes all rows as they are now.
#include "tests/simcuda/programs/turn_costs.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lib/base/files/temporary_folder.h"
#include "lib/base/random.h"
#include "lib/tensors/gpu/cuda_ipc.h"
#include "lib/tensors/gpu/registered_memory.h"

namespace sluice::turn_costs_test {

std::string text_in(const std::string& folder) {
  std::string path = folder + "/text";
  KeyedRandom random(1);
  std::ofstream out(path, std::ios::binary);
  for (int i = 0; i < (1 << 13); ++i)
    out << static_cast<char>('0' + random.below(65));
  return path;
}

WayInProcess way_of(const TurnCostLimit& limit) {
  if (limit.way == "socket") return WayInProcess::socket;
  if (limit.way == "shared") return WayInProcess::shared;
  if (limit.way == "pinned") return WayInProcess::pinned;
  return WayInProcess::memory;
}

TurnCosts counted(const TurnCostLimit& limit) {
  const TemporaryFolder folder;
  const std::string config =
      turn_costs_config(limit.net, limit.kind, text_in(folder.path()));
  return limit.way == "ipc" ? costs_by_ipc(config, folder.path())
                            : costs_in_process(config, way_of(limit));
}

class TurnCostsOnGpus : public testing::TestWithParam<TurnCostLimit> {};

TEST_P(TurnCostsOnGpus, AreNoMoreThanTheyWere) {
  const TurnCostLimit& limit = GetParam();
  if ((limit.way == "ipc" || limit.way == "pinned") &&
      !has_cuda_ipc(c10::Device(c10::DeviceType::CUDA, 0)))
    GTEST_SKIP() << "built with nvcc";
  TurnCosts costs = counted(limit);
  // On a busy machine a process may find its neighbour's copy not yet over, and
  // record one event more.
  for (int again = 0;
       again < 2 && limit.way == "ipc" && costs.events > limit.most.events;
       ++again)
    costs = counted(limit);
  const std::string row =
      fmt::format("{{\"{}\", \"{}\", \"{}\", {}}},", limit.net, limit.way,
                  limit.kind, to_text(costs));
  if (std::getenv("SLUICE_RATCHET") != nullptr)
    std::printf("%s\n", row.c_str());
  EXPECT_GT(costs.launches, 0) << row;
  EXPECT_LE(costs.launches, limit.most.launches) << row;
  EXPECT_LE(costs.waits, limit.most.waits) << row;
  EXPECT_LE(costs.copies, limit.most.copies) << row;
  EXPECT_LE(costs.events, limit.most.events) << row;
}

INSTANTIATE_TEST_SUITE_P(Of, TurnCostsOnGpus,
                         testing::ValuesIn(turn_cost_limits().begin(),
                                           turn_cost_limits().end()),
                         [](const auto& info) {
                           return fmt::format("{}By{}{}", info.param.net,
                                              info.param.way, info.param.kind);
                         });

/// What only moves tensors launches nothing more.
TEST(TurnCosts, OverASocketHaveTheLaunchesOfOneProcess) {
  const std::string config = turn_costs_config("resnet32", "plain", "");
  const TurnCosts memory = costs_in_process(config, WayInProcess::memory);
  const TurnCosts socket = costs_in_process(config, WayInProcess::socket);
  EXPECT_EQ(memory.launches, socket.launches);
  EXPECT_GT(socket.copies, memory.copies);
}

/// Norms, factor and products are a few operations of all gradients; the host
/// reads none of them.
TEST(TurnCosts, TurnCostsOfClippingAreAFewLaunchesAndNoWait) {
  const TurnCosts plain = costs_in_process(
      turn_costs_config("resnet32", "plain", ""), WayInProcess::memory);
  const TurnCosts clipping = costs_in_process(
      turn_costs_config("resnet32", "clipping", ""), WayInProcess::memory);
  EXPECT_EQ(clipping.waits, 0);
  EXPECT_GT(clipping.launches, plain.launches);
  EXPECT_LE(clipping.launches, plain.launches + 16);
}

/// Steps are counted for all parameters at once.
TEST(TurnCosts, TurnCostsOfAdamAreThoseOfSgdAndOneLaunch) {
  const TurnCosts sgd = costs_in_process(
      turn_costs_config("resnet32", "plain", ""), WayInProcess::memory);
  const TurnCosts adam = costs_in_process(
      turn_costs_config("resnet32", "adam", ""), WayInProcess::memory);
  EXPECT_LE(adam.launches, sgd.launches + 1);
}

TEST(TurnCosts, TurnCostsOfDropoutAreNoFurtherCopies) {
  if (!has_cuda_ipc(c10::Device(c10::DeviceType::CUDA, 0)))
    GTEST_SKIP() << "built with nvcc, whose kernels don't run here";
  const TemporaryFolder folder;
  const std::string text = text_in(folder.path());
  const TurnCosts with = costs_in_process(
      turn_costs_config("gpt", "dropout", text), WayInProcess::memory);
  const TurnCosts without = costs_in_process(
      turn_costs_config("gpt", "plain", text), WayInProcess::memory);
  EXPECT_EQ(with.copies, without.copies);
  EXPECT_EQ(with.waits, 0);
  EXPECT_GT(with.launches, without.launches);
}

/// The host copies each byte into the ring and out of it, unless the GPU does.
TEST(TurnCosts, OverPinnedSharedMemoryAreFewBytesCopiedByTheHost) {
  if (!can_register_memory(c10::Device(c10::DeviceType::CUDA, 0)))
    GTEST_SKIP() << "built with nvcc";
  const std::string config = turn_costs_config("resnet32", "plain", "");
  const std::int64_t ring = bytes_copied_by_host(config, WayInProcess::shared);
  const std::int64_t pinned =
      bytes_copied_by_host(config, WayInProcess::pinned);
  // Features of block 1 and their gradients: 2 samples of 16 x 28 x 28.
  constexpr std::int64_t kLarge = 2 * 2 * 16 * 28 * 28 * sizeof(float);
  std::printf(
      "KiB copied by the host in a turn: %lld, %lld with pinned slots\n",
      static_cast<long long>(ring / 1024),
      static_cast<long long>(pinned / 1024));
  EXPECT_GE(ring, 2 * kLarge);
  EXPECT_LE(pinned, ring - 2 * kLarge);
}

/// What leaves for the host is waited for by another thread.
TEST(TurnCosts, OverASocketHaveNoWaitsOfTheThreadThatComputes) {
  EXPECT_EQ(costs_in_process(turn_costs_config("resnet32", "plain", ""),
                             WayInProcess::socket)
                .waits,
            0);
}

}  // namespace sluice::turn_costs_test
