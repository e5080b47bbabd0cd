// Ranks of one host, which something else has started and may have shown other
// GPUs each: what passes between them stays on GPUs where these reach each
// other, and else goes through the host, and somebody says why.
#include <cstdint>
#include <fstream>
#include <regex>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "lib/base/files/temporary_folder.h"
#include "lib/tensors/gpu/cuda_ipc.h"
#include "tests/experiments/helpers/program.h"

namespace sluice::ranks_on_gpus_test {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kRanksLines =
    "engine = 'processes'\ntransport = 'shared_memory'\nblocks = 2\n"
    "device = 'cuda'\nmodel = {hidden = [24, 20, 16]}\n"
    "boundary = {policy = 'backprop'}\n";

/// Two ranks as torchrun would start them; `each` is done before each of them,
/// and knows its $RANK.
class RanksOnGpus : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_cuda_ipc(c10::Device(c10::DeviceType::CUDA, 0)))
      GTEST_SKIP() << "built with nvcc";
  }

  void train(const std::string& each, const std::string& keys = "") {
    const std::string config = folder_.path() + "/config.toml";
    std::ofstream(config) << config_with(kRanksLines);
    const std::string script = folder_.path() + "/ranks.sh";
    std::ofstream(script) << fmt::format(
        "export WORLD_SIZE=2 MASTER_PORT={}\n"
        "for RANK in 1 0; do\n  export RANK LOCAL_RANK=$RANK\n  {}\n"
        "  {} run {} {} --dir {}/run & last=$!\ndone\n"
        "wait $last; status=$?\nwait\nexit $status\n",
        20'000 + ::getpid() % 20'000, each, SLUICE_SIM_PROGRAM, config, keys,
        folder_.path());
    outcome_ = shell("sh " + script);
    ASSERT_EQ(outcome_.status, 0) << outcome_.text;
    metrics_ = slurp(folder_.path() + "/run/metrics.jsonl");
  }
  /// Sum over both blocks.
  std::int64_t count(const std::string& key) const {
    const std::regex number("\"" + key + "\": ?([0-9]+)");
    std::int64_t sum = 0;
    for (std::sregex_iterator found(metrics_.begin(), metrics_.end(), number),
         end;
         found != end; ++found)
      sum += std::stoll((*found)[1]);
    return sum;
  }
  void expect_by_ipc() const {
    EXPECT_GT(count("up_by_ipc"), 0) << metrics_;
    EXPECT_GT(count("down_by_ipc"), 0);
    EXPECT_EQ(count("up_through_host") + count("down_through_host"), 0);
    EXPECT_THAT(outcome_.text, Not(HasSubstr("through the host")));
  }
  void expect_through_host(const std::string& why) const {
    EXPECT_EQ(count("up_by_ipc") + count("down_by_ipc"), 0) << metrics_;
    EXPECT_GT(count("up_through_host"), 0);
    EXPECT_THAT(metrics_, HasSubstr(why));
  }

  const TemporaryFolder folder_;
  Outcome outcome_;
  std::string metrics_;
};

TEST_F(RanksOnGpus, ThatSeeAllGpusUseCudaIpc) {
  train("");
  expect_by_ipc();
}

/// As with `srun --gpus-per-task=1`: each calls its own cuda:0.
TEST_F(RanksOnGpus, ThatSeeTheirOwnAloneUseCudaIpc) {
  train("export CUDA_VISIBLE_DEVICES=$RANK");
  expect_by_ipc();
}

TEST_F(RanksOnGpus, WithoutPeerAccessGoThroughTheHostAndSayIt) {
  train("export SIMCUDA_PEERS=0");
  expect_through_host("can't read the other's memory");
  EXPECT_THAT(outcome_.text,
              HasSubstr("block 1: tensors go to block 2 through the host"));
}

/// Only opening the memory tells.
TEST_F(RanksOnGpus, WithoutAccessToOneThatIsHiddenGoThroughTheHost) {
  train("export SIMCUDA_PEERS=0 CUDA_VISIBLE_DEVICES=$RANK");
  expect_through_host("peer access is not supported");
}

TEST_F(RanksOnGpus, ThatAreToldToGoThroughTheHostWithoutAWord) {
  train("", "cuda_ipc=false");
  expect_through_host("cuda_ipc = false");
  EXPECT_THAT(outcome_.text, Not(HasSubstr("through the host")));
}

/// cuda_ipc may differ between the ranks of a run.
TEST_F(RanksOnGpus, RanksGoThroughTheHostWhereOneRefusesCudaIpc) {
  train("[ $RANK = 1 ] && KEYS=cuda_ipc=false || KEYS=cuda_ipc=true", "$KEYS");
  expect_through_host("cuda_ipc = false");
}

/// Two "hosts", unless their marks are equal.
std::string on_hosts_marked(const std::string& mark) {
  return fmt::format(
      "export MASTER_ADDR=127.0.0.1 LOCAL_WORLD_SIZE=1 SLUICE_SECRET={} "
      "SLUICE_HOST_MARK={}",
      std::string(64, 'a'), mark);
}

TEST_F(RanksOnGpus, RanksOfAutoTransportUseCudaIpcWhereTheyAreOnOneHost) {
  train(on_hosts_marked("same"), "transport=auto");
  expect_by_ipc();
}

TEST_F(RanksOnGpus, RanksOfAutoTransportGoThroughTheHostBetweenHosts) {
  train(on_hosts_marked("$RANK"), "transport=auto");
  expect_through_host("they are on two hosts");
}

}  // namespace sluice::ranks_on_gpus_test
