#include "experiments/runs/seats/mps.h"

#include <csignal>
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

/// Exit status of a command of the shell, which no signal is held from: a
/// daemon lives on with the mask that it was started with.
int status_of_shell(const char* command) {
  std::string words[] = {"sh", "-c", command};
  char* argv[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  posix_spawnattr_t attributes;
  sigset_t none;
  sigemptyset(&none);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t child = 0;
  const int failed =
      ::posix_spawn(&child, "/bin/sh", nullptr, &attributes, argv, environ);
  ::posix_spawnattr_destroy(&attributes);
  if (failed != 0) return -1;
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

// NOLINTBEGIN(concurrency-mt-unsafe): a run has neither workers nor threads
// yet, or none any more
MpsDaemon::MpsDaemon() {
  for (const char* name : {kPipes, kLogs}) {
    const char* const value = std::getenv(name);
    before_.emplace_back(name, value == nullptr
                                   ? std::nullopt
                                   : std::optional(std::string(value)));
    ::setenv(name, folder_.path().c_str(), /*replace=*/1);
  }
  if (status_of_shell(kStart) == 0) return;
  restore_environment();
  throw UserError(
      "mps = true: `nvidia-cuda-mps-control -d` failed; install it (it comes "
      "with NVIDIA's driver), or leave mps out");
}

MpsDaemon::~MpsDaemon() {
  status_of_shell(kQuit);
  restore_environment();
}

void MpsDaemon::restore_environment() {
  for (const auto& [name, value] : before_)
    if (value)
      ::setenv(name, value->c_str(), /*replace=*/1);
    else
      ::unsetenv(name);
}
// NOLINTEND(concurrency-mt-unsafe)

}  // namespace sluice
