// Two blocks in two and three replicas under mpirun: the weights of one thread.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lib/base/files/temporary_folder.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/replicas/groups/mpi.h"

namespace sluice::mpi_run_test {
namespace {

constexpr const char* kConfig =
    "blocks = 2\nturns = 20\nbatch_size = 24\nthreads = 1\n"
    "model = {hidden = [12, 12], dropout = 0.2, batch_norm = true}\n"
    "boundary = {policy = 'delayed_gradient'}\n"
    "optimizer = {name = 'sgd', lr = 0.05, momentum = 0.9}\n"
    "data = {train = 240, test = 40}\n";

class MpiRun : public testing::Test {
 protected:
  MpiRun() { std::ofstream(config()) << kConfig; }
  std::string config() const { return folder_.path() + "/run.toml"; }

  /// The last weights of a run; `starter` stands before the program.
  NamedTensors trained(const std::string& starter, const std::string& more) {
    const std::string dir = folder_.path() + "/run";
    const std::string command = fmt::format(
        "{} {} run {} --dir {} --overwrite {} >{}/out 2>&1", starter,
        SLUICE_TEST_PROGRAM, config(), dir, more, folder_.path());
    EXPECT_EQ(std::system(command.c_str()), 0) << command;  // NOLINT
    const auto saved = find_checkpoints(dir + "/checkpoints");
    return saved.empty() ? NamedTensors()
                         : load_weights(saved.rbegin()->second);
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(MpiRun, MpiRunOfReplicasHasTheWeightsOfOneThread) {
  if (std::string(SLUICE_TEST_MPIRUN).empty())
    GTEST_SKIP() << "this build has no MPI";
  for (const int replicas : {2, 3}) {
    const std::string count = fmt::format("replicas.count={}", replicas);
    const NamedTensors one = trained("", count + " engine=virtual");
    const NamedTensors ranks =
        trained(fmt::format("{} -n {}", SLUICE_TEST_MPIRUN, 2 * replicas),
                count + " engine=processes replicas.group=mpi");
    ASSERT_FALSE(one.empty());
    ASSERT_EQ(one.size(), ranks.size());
    for (std::size_t i = 0; i < one.size(); ++i)
      EXPECT_LT((one[i].second - ranks[i].second).abs().max().item<double>(),
                1e-6)
          << one[i].first << ", " << replicas << " replicas";
  }
}

}  // namespace
}  // namespace sluice::mpi_run_test
