// A GPU whose memory runs out: one error, which says whose it was, where and
// what helps; and no restart, which would meet it again.
#include <fstream>
#include <limits>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/base/files/temporary_folder.h"
#include "tests/experiments/helpers/program.h"
#include "tests/experiments/helpers/training.h"
#include "tests/simcuda/simcuda.h"

namespace sluice::out_of_memory_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

/// Sizes that no other test has, whose memory would be taken again.
constexpr const char* kLines =
    "blocks = 2\nmodel = {hidden = [41, 37, 29]}\nboundary = {policy = "
    "'delayed_gradient'}\n";

constexpr const char* kText =
    "block 2: device 'cuda:1' has no memory left: make batch_size smaller";

class OutOfMemory : public testing::TestWithParam<const char*> {};

/// 2000 bytes are less than the weights.
TEST_P(OutOfMemory, IsOneErrorOnEveryEngine) {
  const TemporaryFolder folder;
  const std::string config = folder.path() + "/config.toml";
  std::ofstream(config) << config_with("device = ['cpu', 'cuda:1']\n" +
                                       std::string(kLines));
  const Outcome run =
      shell(fmt::format("SIMCUDA_BYTES=2000 {} run {} {} --dir {}/run",
                        SLUICE_SIM_PROGRAM, config, GetParam(), folder.path()));
  EXPECT_EQ(run.status, 2) << run.text;
  EXPECT_THAT(run.text, HasSubstr(kText));
  EXPECT_THAT(run.text, Not(HasSubstr("block 2: block 2")));
  EXPECT_THAT(run.text, Not(HasSubstr("Restart")));
}

INSTANTIATE_TEST_SUITE_P(Engines, OutOfMemory,
                         testing::Values("engine=virtual", "engine=threads",
                                         "engine=processes on_failure=restart"),
                         [](const auto& info) {
                           const std::string keys = info.param;
                           const auto begin = keys.find('=') + 1;
                           return keys.substr(begin, keys.find(' ') - begin);
                         });

/// No memory is left for the life of this but what has been released.
struct FullMemory {
  FullMemory() { simcuda::limit_memory(0); }
  ~FullMemory() {
    simcuda::limit_memory(std::numeric_limits<std::size_t>::max());
  }
  FullMemory(const FullMemory&) = delete;
  FullMemory& operator=(const FullMemory&) = delete;
};

TEST(OutOfMemoryInATurn, IsTheErrorOfTheBlockThatComputes) {
  Training training(small_experiment("device = 'cuda:1'\nbatch_size = 53\n" +
                                     std::string(kLines)));
  const FullMemory limit;
  EXPECT_THAT([&] { training.train(); },
              ThrowsMessage<UserError>(AllOf(
                  HasSubstr("block 1: device 'cuda:1' has no memory left"),
                  HasSubstr("LibTorch says: simulated GPU"))));
}

}  // namespace sluice::out_of_memory_test
