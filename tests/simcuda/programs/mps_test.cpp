// mps = true: the run's own daemon of CUDA's Multi-Process Service, here a
// script that leaves what such a daemon leaves.
#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/files/temporary_folder.h"
#include "tests/experiments/helpers/program.h"

namespace sluice::mps_test {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kAdvice = "nvidia-cuda-mps-control -d";

class Mps : public testing::Test {
 protected:
  std::string path(const std::string& name) const {
    return folder_.path() + "/" + name;
  }

  void install_daemon() const {
    const std::string file = path("bin/nvidia-cuda-mps-control");
    fs::create_directories(path("bin"));
    std::ofstream(file) << fmt::format(
        "#!/bin/sh\ncontrol=$CUDA_MPS_PIPE_DIRECTORY/control\n"
        "if [ \"$1\" = -d ]; then touch $control; echo started >> {0}; exit; "
        "fi\nread word; rm $control; echo $word >> {0}\n",
        path("log"));
    fs::permissions(file, fs::perms::owner_all);
  }

  /// Two blocks in processes on one GPU.
  Outcome run(const std::string& keys) const {
    std::ofstream(path("c.toml")) << config_with(
        "engine = 'processes'\ntransport = 'shared_memory'\n"
        "blocks = 2\ndevice = 'cuda:0'\n"
        "model = {hidden = [1024, 1024]}\n");
    return shell(fmt::format(
        "env PATH={}:$PATH CUDA_MPS_PIPE_DIRECTORY={} {} run {} --dir {} {}",
        path("bin"), path("none"), SLUICE_SIM_PROGRAM, path("c.toml"),
        path("run"), keys));
  }
  std::string metrics() const { return slurp(path("run/metrics.jsonl")); }

 private:
  const TemporaryFolder folder_;
};

TEST_F(Mps, RunsWithTheRunThatAsksForIt) {
  install_daemon();
  const Outcome outcome = run("mps=true");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_EQ(slurp(path("log")), "started\nquit\n");
  EXPECT_THAT(metrics(),
              AllOf(HasSubstr("\"up_by_ipc\""), Not(HasSubstr(kAdvice))));
}

TEST_F(Mps, IsAdvisedWhereProcessesShareAGpuWithoutIt) {
  install_daemon();
  EXPECT_EQ(run("").status, 0);
  EXPECT_FALSE(fs::exists(path("log")));
  EXPECT_THAT(metrics(), HasSubstr(kAdvice));
}

TEST_F(Mps, EndsWithARunThatFails) {
  install_daemon();
  EXPECT_NE(run("mps=true --inject 'kill block 2 @ turn 3'").status, 0);
  EXPECT_EQ(slurp(path("log")), "started\nquit\n");
}

TEST_F(Mps, ThatCannotBeStartedIsOneErrorWithTheRemedy) {
  const Outcome outcome = run("mps=true");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.text,
              AllOf(HasSubstr("mps = true"), HasSubstr("leave mps out"),
                    Not(HasSubstr("not found"))));
}

}  // namespace sluice::mps_test
