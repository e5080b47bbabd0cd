// `sluice doctor`.
#include <array>
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

#include <ATen/Context.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/statvfs.h>
#include <torch/version.h>

#include "experiments/data/files/sub_words.h"
#include "experiments/program/commands.h"
#include "experiments/runs/folder/host_facts.h"
#include "experiments/runs/folder/provenance.h"
#include "experiments/runs/seats/mps.h"
#include "lib/base/error.h"
#include "lib/base/processors.h"
#include "lib/replicas/groups/mpi.h"
#include "lib/replicas/groups/nccl.h"
#include "lib/tensors/device.h"
#include "lib/tensors/gpu/cuda_ipc.h"

namespace sluice {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

void print_finding(std::string_view name, std::string_view found) {
  fmt::print("  {:<18}{}\n", name, found);
}

std::string libtorch() {
  return fmt::format(
      "{} for {}", TORCH_VERSION,
      at::globalContext().hasCUDART() ? "CUDA GPUs" : "CPUs alone");
}

std::string gpu_code() {
  if (!at::globalContext().hasCUDART())
    return "no: device = \"cuda\" needs a build against a CUDA LibTorch "
           "(docs/building.md)";
  if (cuda_ipc() == nullptr)
    return "without CUDA IPC and kernels: build where nvcc is "
           "(docs/building.md)";
  return "with CUDA IPC and kernels";
}

std::string mpi() {
  if (has_mpi()) return std::string(mpi_name());
  return "no: replicas.group = \"mpi\" needs a build where MPI is "
         "(docs/building.md)";
}

std::string nccl() {
  try {
    check_has_nccl();
    return "yes";
  } catch (const UserError& error) {
    const std::string reason = error.what();  // "replicas.group = ...: WHY"
    return "no: " + reason.substr(reason.find(": ") + 2);
  }
}

std::string sentencepiece() {
  if (has_sentencepiece()) return "yes";
  return "no: texts of sub-words need it: install libsentencepiece-dev, and "
         "build anew";
}

std::string cores() {
  const ProcessorLimits limits = processor_limits();
  const std::int64_t usable = processors_within(limits);
  return fmt::format(
      "{} of {} allowed by affinity; quota of the cgroup: {}; "
      "OMP_NUM_THREADS: {}",
      usable, limits.affinity,
      limits.quota ? fmt::format("{:.1f}", *limits.quota) : "none",
      limits.omp ? std::to_string(*limits.omp) : "not set");
}

/// Processes that ran or wanted to run in the last minute.
double load_of_host() {
  std::ifstream file("/proc/loadavg");
  double load = 0;
  file >> load;
  return load;
}

std::string load() {
  const double load = load_of_host();
  const bool is_busy = load > 0.5;
  return fmt::format("{:.1f} processes in the last minute{}", load,
                     is_busy ? ": measure times when other programs rest" : "");
}

/// GiB that programs may still take; 0: not known.
double free_memory() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  double kibibytes = 0;
  for (std::string unit; file >> name >> kibibytes;) {
    if (name == "MemAvailable:") return kibibytes * 1024 / kGiB;
    std::getline(file, unit);
  }
  return 0;
}

std::string shared_memory() {
  struct statvfs room = {};
  if (::statvfs("/dev/shm", &room) != 0)
    return "none: transport = \"shared_memory\" needs /dev/shm";
  const double bytes =
      static_cast<double>(room.f_bavail) * static_cast<double>(room.f_frsize);
  const bool is_little = bytes < kGiB / 4;
  return fmt::format("{:.1f} GiB free in /dev/shm{}", bytes / kGiB,
                     is_little ? ": docker run --shm-size=1g gives more" : "");
}

void print_gpus() {
  const auto gpus = gpus_of_host();
  const int usable = at::globalContext().hasCUDART() ? count_gpus() : 0;
  if (gpus.empty() && usable == 0) return print_finding("GPUs", "none");
  print_finding("GPUs", fmt::format("{}; usable by this build: {}",
                                    fmt::join(gpus, ", "), usable));
  print_finding("driver", driver_of_host());
  print_finding("MPS", mps_is_running()
                           ? "running"
                           : "not running: nvidia-cuda-mps-control -d lets "
                             "processes share a GPU at the same time");
}

}  // namespace

void doctor_command(std::string (*data_sets_in)(const std::string& root)) {
  fmt::print("sluice {}\n\nThis build\n", version_text());
  print_finding("LibTorch", libtorch());
  print_finding("GPU code", gpu_code());
  print_finding("NCCL", nccl());
  print_finding("MPI", mpi());
  print_finding("sentencepiece", sentencepiece());
  fmt::print("\nThis host\n");
  print_finding("processor",
                fmt::format("{}; {}", processor_model(), instruction_set()));
  print_finding("cores", cores());
  print_finding("load", load());
  print_finding("memory", fmt::format("{:.1f} GiB free", free_memory()));
  print_finding("shared memory", shared_memory());
  print_gpus();
  const std::string root = data_root();
  fmt::print("\nData sets{}\n{}", root.empty() ? "" : " in " + root,
             data_sets_in(root));
}

}  // namespace sluice
