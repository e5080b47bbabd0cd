#include "lib/tensors/generator_kept.h"

#include <ATen/CPUGeneratorImpl.h>

namespace sluice {

at::Tensor generator_state() {
  return at::detail::getDefaultCPUGenerator().get_state();
}

void set_generator_state(const at::Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  generator.set_state(state);
}

GeneratorKept::GeneratorKept() : before_(generator_state()) {}

GeneratorKept::~GeneratorKept() {
  set_generator_state(before_);
}

bool GeneratorKept::was_used() const {
  return !generator_state().equal(before_);
}

}  // namespace sluice
