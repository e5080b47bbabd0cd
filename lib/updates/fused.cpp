#include "lib/updates/fused.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include <ATen/ATen.h>

namespace sluice {
namespace {

/// Elements of a piece, a multiple of any vector: with float weights 128 KiB,
/// half of a small second level cache.
constexpr std::int64_t kPiece = 32768;

/// The tensors of one parameter that a step reads and writes.
struct StepTensors {
  at::Tensor weight;
  at::Tensor before;  ///< undefined: the weight has not moved
  at::Tensor gradient;
  Tensors states;
  Tensors steps;

  /// Elements in the order of memory, in which all lie alike.
  StepTensors piece(std::int64_t begin, std::int64_t size) const {
    const auto of = [&](const at::Tensor& all) {
      return all.as_strided({size}, {1}, all.storage_offset() + begin);
    };
    StepTensors part{of(weight), of(before), of(gradient), {}, steps};
    for (const at::Tensor& state : states) part.states.push_back(of(state));
    return part;
  }

  bool is_dense() const {
    const auto lies_alike = [&](const at::Tensor& other) {
      return other.strides() == weight.strides();
    };
    return weight.is_cpu() && weight.is_non_overlapping_and_dense() &&
           lies_alike(before) && lies_alike(gradient) &&
           std::all_of(states.begin(), states.end(), lies_alike);
  }
};

/// Steps what is added, several parameters or pieces in one call.
class StepBatch {
 public:
  StepBatch(const FusedGroup& group, const FusedStep& step)
      : group_(group), step_(step) {}

  void add(const StepTensors& one) {
    operands_.add(one.weight, one.gradient, one.states, one.steps);
    elements_ += one.weight.numel();
  }

  void add_moved(const StepTensors& one) {
    if (!one.is_dense()) {
      moved_.push_back(one.weight);
      before_.push_back(one.before);
      return add(one);
    }
    const std::int64_t size = one.weight.numel();
    for (std::int64_t begin = 0; begin < size; begin += kPiece) {
      const StepTensors part = one.piece(begin, std::min(kPiece, size - begin));
      std::memcpy(part.weight.mutable_data_ptr(), part.before.const_data_ptr(),
                  part.weight.nbytes());
      add(part);
      if (elements_ >= kPiece) flush();
    }
  }

  void flush() {
    if (!moved_.empty()) at::_foreach_copy_(moved_, before_);
    moved_ = {};
    before_ = {};
    if (!operands_.weights.empty()) step_(group_, operands_);
    operands_ = {};
    elements_ = 0;
  }

 private:
  const FusedGroup& group_;
  const FusedStep& step_;
  StepOperands operands_;
  Tensors moved_;   // weights that are to be copied before the step,
  Tensors before_;  // from these
  std::int64_t elements_ = 0;
};

}  // namespace

void StepOperands::add(const at::Tensor& weight, const at::Tensor& gradient,
                       const Tensors& of_states, const Tensors& of_steps) {
  weights.push_back(weight);
  gradients.push_back(gradient);
  states.resize(of_states.size());
  for (std::size_t i = 0; i < of_states.size(); ++i)
    states[i].push_back(of_states[i]);
  for (const at::Tensor& count : of_steps) steps.push_back(count);
}

void step_fused(const std::vector<FusedGroup>& groups,
                const NamedTensors& parameters, const MovedWeights& moved,
                const Tensors& gradients, const std::vector<Tensors>& states,
                const FusedStep& step, const Tensors& steps) {
  for (const FusedGroup& group : groups) {
    StepBatch batched(group, step);
    for (const std::size_t i : group.members) {
      const at::Tensor& weight = parameters[i].second;
      const bool has_moved = i < moved.before.size();
      if (!gradients[i].defined()) {
        if (has_moved) at::Tensor(weight).copy_(moved.before[i]);
        continue;
      }
      StepTensors one{.weight = weight,
                      .before = has_moved ? moved.before[i] : at::Tensor(),
                      .gradient = gradient_for(weight, gradients[i]),
                      .states = {},
                      .steps = {}};
      for (const Tensors& state : states) one.states.push_back(state[i]);
      if (!steps.empty()) one.steps.push_back(steps[i]);
      has_moved ? batched.add_moved(one) : batched.add(one);
    }
    batched.flush();
  }
}

}  // namespace sluice
