#pragma once

#include <ATen/core/Tensor.h>

namespace sluice {

/// State of LibTorch's process-wide generator.
at::Tensor generator_state();
void set_generator_state(const at::Tensor& state);

/// Puts LibTorch's process-wide generator back as it was: what a program draws
/// from it must not depend on what is made beside, and where.
class GeneratorGuard {
 public:
  GeneratorGuard();
  ~GeneratorGuard();
  GeneratorGuard(const GeneratorGuard&) = delete;
  GeneratorGuard& operator=(const GeneratorGuard&) = delete;

  bool was_used() const;

 private:
  at::Tensor before_;
};

}  // namespace sluice
