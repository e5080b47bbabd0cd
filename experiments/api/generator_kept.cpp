#include "experiments/api/generator_kept.h"

#include <ATen/CPUGeneratorImpl.h>

namespace sluice {
namespace {

at::Tensor state() {
  return at::detail::getDefaultCPUGenerator().get_state();
}

}  // namespace

GeneratorKept::GeneratorKept() : before_(state()) {}

GeneratorKept::~GeneratorKept() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  generator.set_state(before_);
}

bool GeneratorKept::was_used() const {
  return !state().equal(before_);
}

}  // namespace sluice
