#pragma once

#include <string>
#include <vector>

namespace sluice {

/// Model of the host's processor: "AMD EPYC, family 25, model 17, stepping 1".
/// Processors of several generations share the name alone.
std::string processor_model();

/// Instruction set that LibTorch chose, and the limits that the environment
/// sets for its libraries: "AVX512, ONEDNN_MAX_CPU_ISA=AVX2".
std::string instruction_set();

/// Names of the host's NVIDIA GPUs, sorted.
std::vector<std::string> gpus_of_host();

/// Version of the NVIDIA driver: "550.54.15"; empty: there is none.
std::string driver_of_host();

}  // namespace sluice
