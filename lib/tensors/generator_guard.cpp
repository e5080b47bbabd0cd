#include "lib/tensors/generator_guard.h"

#include <ATen/CPUGeneratorImpl.h>

namespace sluice {

at::Tensor generator_state() {
  return at::detail::getDefaultCPUGenerator().get_state();
}

void set_generator_state(const at::Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  generator.set_state(state);
}

GeneratorGuard::GeneratorGuard() : before_(generator_state()) {}

GeneratorGuard::~GeneratorGuard() {
  set_generator_state(before_);
}

bool GeneratorGuard::was_used() const {
  return !generator_state().equal(before_);
}

}  // namespace sluice
