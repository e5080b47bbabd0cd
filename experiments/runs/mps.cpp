#include "experiments/runs/mps.h"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/error.h"

namespace sluice {
namespace {

constexpr const char* kPipes = "CUDA_MPS_PIPE_DIRECTORY";
constexpr const char* kLogs = "CUDA_MPS_LOG_DIRECTORY";
constexpr const char* kStart =
    "exec nvidia-cuda-mps-control -d >/dev/null 2>&1";
constexpr const char* kQuit =
    "echo quit | nvidia-cuda-mps-control >/dev/null 2>&1";

/// Exit status of a command of the shell.
int status_of_shell(const char* command) {
  std::string words[] = {"sh", "-c", command};
  char* argv[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  pid_t child = 0;
  if (::posix_spawn(&child, "/bin/sh", nullptr, nullptr, argv, environ) != 0)
    return -1;
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

bool mps_is_running() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): MpsDaemon alone changes it
  const char* const folder = std::getenv(kPipes);
  std::error_code ignored;
  return std::filesystem::exists(
      std::filesystem::path(folder != nullptr ? folder : "/tmp/nvidia-mps") /
          "control",
      ignored);
}

MpsDaemon::MpsDaemon() {
  // NOLINTBEGIN(concurrency-mt-unsafe): before workers and threads of the run
  ::setenv(kPipes, folder_.path().c_str(), /*replace=*/1);
  ::setenv(kLogs, folder_.path().c_str(), /*replace=*/1);
  if (status_of_shell(kStart) == 0) return;
  ::unsetenv(kPipes);
  ::unsetenv(kLogs);
  // NOLINTEND(concurrency-mt-unsafe)
  throw UserError(
      "mps = true: `nvidia-cuda-mps-control -d` failed; install it (it comes "
      "with NVIDIA's driver), or leave mps out");
}

MpsDaemon::~MpsDaemon() {
  status_of_shell(kQuit);
  // NOLINTBEGIN(concurrency-mt-unsafe): workers have ended
  ::unsetenv(kPipes);
  ::unsetenv(kLogs);
  // NOLINTEND(concurrency-mt-unsafe)
}

}  // namespace sluice
