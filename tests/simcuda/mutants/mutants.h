#pragma once

#include <string>
#include <vector>

#include "lib/tensors/gpu/staging.h"

namespace sluice {

/// The functions of lib/tensors/gpu/staging.cpp, right or with a planted
/// defect.
struct Mutant {
  std::string name;
  HostCopy (*copy_to_host)(const at::Tensor&) = nullptr;
  at::Tensor (*on_device)(const at::Tensor&, const c10::Device&) = nullptr;
};

/// Written by plant.py when it is built.
std::vector<Mutant> mutants_of_staging();

}  // namespace sluice
