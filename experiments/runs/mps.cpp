#include "experiments/runs/mps.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace sluice {

bool mps_is_running() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): the program doesn't change it
  const char* const folder = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  std::error_code ignored;
  return std::filesystem::exists(
      std::filesystem::path(folder != nullptr ? folder : "/tmp/nvidia-mps") /
          "control",
      ignored);
}

}  // namespace sluice
