// Blocks of two processes on GPUs that don't reach each other: tensors go
// through slots of shared memory that CUDA has pinned, so that the host copies
// none of them; with the same bits as where it refuses that.
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <regex>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/files/temporary_folder.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/tensors/gpu/registered_memory.h"
#include "tests/experiments/helpers/program.h"

namespace sluice::pinned_slots_test {

using testing::HasSubstr;
using testing::Not;

/// Activations of 96 KiB.
constexpr const char* kLines =
    "engine = 'processes'\ntransport = 'shared_memory'\nblocks = 3\n"
    "device = ['cuda:0', 'cuda:1', 'cuda:0']\n"
    "model = {hidden = [1024, 1024, 1024]}\n"
    "boundary = {policy = 'backprop'}\n";

class PinnedSlots : public testing::Test {
 protected:
  void SetUp() override {
    if (!can_register_memory(c10::Device(c10::DeviceType::CUDA, 0)))
      GTEST_SKIP() << "built with nvcc";
  }

  struct ProgramResult {
    std::string text;      ///< what the program said
    std::string metrics;   ///< its records
    NamedTensors weights;  ///< at its end
  };
  ProgramResult trained(const std::string& name, const std::string& environment,
                        const std::string& keys = "") const {
    const std::string config = folder_.path() + "/config.toml";
    std::ofstream(config) << config_with(kLines);
    const std::string run = folder_.path() + "/" + name;
    const Outcome outcome =
        shell(fmt::format("{} {} run {} {} --dir {}", environment,
                          SLUICE_SIM_PROGRAM, config, keys, run));
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    return {
        .text = outcome.text,
        .metrics = slurp(run + "/metrics.jsonl"),
        .weights = load_weights(checkpoint_folder(run + "/checkpoints", 12))};
  }

 private:
  const TemporaryFolder folder_;
};

void expect_equal(const NamedTensors& a, const NamedTensors& b) {
  ASSERT_EQ(a.size(), b.size());
  ASSERT_GT(a.size(), 0u);
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_TRUE(a[i].second.equal(b[i].second)) << a[i].first;
}

TEST_F(PinnedSlots, GiveTheBitsOfOtherWays) {
  const ProgramResult slots = trained("slots", "SIMCUDA_PEERS=0");
  const ProgramResult sockets = trained("sockets", "", "transport=unix");
  EXPECT_THAT(slots.metrics, HasSubstr("can't read the other's memory"));
  EXPECT_THAT(slots.text, Not(HasSubstr("CUDA pins no shared memory")));
  expect_equal(slots.weights, sockets.weights);
}

/// How often the process of block 2 asked LibTorch for pinned memory.
std::int64_t pinned_by_libtorch(const std::string& text) {
  const std::regex count(
      "--block 2 .*allocations [0-9]+ \\(peak [0-9.]+ MB\\), pinned ([0-9]+);");
  std::smatch found;
  EXPECT_TRUE(std::regex_search(text, found, count)) << text;
  return found.empty() ? 0 : std::stoll(found[1]);
}

/// Each of 12 turns sends one tensor up and one down.
TEST_F(PinnedSlots, TakeThePlaceOfLibTorchsMemory) {
  const ProgramResult slots =
      trained("slots", "SIMCUDA_SUMMARY=1 SIMCUDA_PEERS=0");
  const ProgramResult refused = trained(
      "refused", "SIMCUDA_SUMMARY=1 SIMCUDA_PEERS=0 SIMCUDA_PINNED=100000");
  EXPECT_LE(pinned_by_libtorch(slots.text) + 20,
            pinned_by_libtorch(refused.text));
}

/// Then the host copies them, and somebody says why.
TEST_F(PinnedSlots, ThatCudaRefusesGiveTheSameBits) {
  const ProgramResult slots = trained("slots", "SIMCUDA_PEERS=0");
  const ProgramResult refused =
      trained("refused", "SIMCUDA_PEERS=0 SIMCUDA_PINNED=100000");
  EXPECT_THAT(refused.text,
              HasSubstr("block 1: the host copies tensors to or from block 2: "
                        "CUDA pins no shared memory: out of memory"));
  EXPECT_THAT(refused.metrics,
              HasSubstr("CUDA pins no shared memory: out of memory"));
  expect_equal(slots.weights, refused.weights);
}

}  // namespace sluice::pinned_slots_test
