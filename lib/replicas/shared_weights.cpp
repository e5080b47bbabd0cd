#include "lib/replicas/shared_weights.h"

#include <cstddef>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

#include "lib/base/error.h"

namespace sluice {
namespace {

void check_types(const NamedTensors& weights) {
  for (const auto& [name, tensor] : weights) {
    const at::ScalarType type = tensor.scalar_type();
    if (type != at::kFloat && type != at::kDouble)
      throw UserError(
          "replicas.policy = 'shared' adds to weights of float32 and float64, "
          "and {} is of {}: choose another policy",
          name, c10::toString(type));
    SLUICE_CHECK(tensor.is_cpu() && tensor.is_non_overlapping_and_dense(),
                 "{} can't be shared by replicas", name);
  }
}

/// Checks that both lists can be walked as flat arrays side by side.
void check_alike(const Tensors& shared, const Tensors& others) {
  SLUICE_CHECK(shared.size() == others.size(),
               "{} tensors where the replicas share {}", others.size(),
               shared.size());
  for (std::size_t k = 0; k < shared.size(); ++k)
    SLUICE_CHECK(shared[k].strides() == others[k].strides() &&
                     shared[k].sizes() == others[k].sizes() &&
                     shared[k].scalar_type() == others[k].scalar_type(),
                 "tensor {} lies in memory in another way than what the "
                 "replicas share",
                 k);
}

bool is_double(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble;
}

template <class T>
void load_elements(const at::Tensor& shared, const at::Tensor& into) {
  T* const from = shared.data_ptr<T>();
  T* const to = into.data_ptr<T>();
  for (std::int64_t i = 0; i < into.numel(); ++i)
    to[i] = std::atomic_ref<T>(from[i]).load(std::memory_order_relaxed);
}

/// fetch_add, but for an element that is as it was: before + (after - before)
/// isn't always after.
template <class T>
void add_elements(const at::Tensor& shared, const at::Tensor& of_before,
                  const at::Tensor& of_after) {
  T* const to = shared.data_ptr<T>();
  const T* const before = of_before.data_ptr<T>();
  const T* const after = of_after.data_ptr<T>();
  for (std::int64_t i = 0; i < shared.numel(); ++i) {
    if (before[i] == after[i]) continue;
    const std::atomic_ref<T> element(to[i]);
    const T moved = after[i] - before[i];
    T now = element.load(std::memory_order_relaxed);
    T next = 0;
    do {
      next = now == before[i] ? after[i] : now + moved;
    } while (
        !element.compare_exchange_weak(now, next, std::memory_order_relaxed));
  }
}

}  // namespace

void SharedWeights::fill(const NamedTensors& first) {
  check_types(first);
  std::call_once(filled_, [&] {
    const at::NoGradGuard no_grad;
    for (const auto& [name, tensor] : first) {
      weights_.push_back(tensor.detach().clone());
      settled_.push_back(weights_.back().clone());
    }
  });
}

void SharedWeights::load(const Tensors& into) const {
  check_alike(weights_, into);
  for (std::size_t k = 0; k < into.size(); ++k)
    if (is_double(into[k]))
      load_elements<double>(weights_[k], into[k]);
    else
      load_elements<float>(weights_[k], into[k]);
}

void SharedWeights::add(const Tensors& before, const Tensors& after) {
  check_alike(weights_, before);
  check_alike(weights_, after);
  for (std::size_t k = 0; k < weights_.size(); ++k)
    if (is_double(weights_[k]))
      add_elements<double>(weights_[k], before[k], after[k]);
    else
      add_elements<float>(weights_[k], before[k], after[k]);
  updates_.fetch_add(1, std::memory_order_relaxed);
}

/// Waits for all. Each replica has added its update before it arrives. The last
/// one sees all of them, and runs alone until the others go on.
void SharedWeights::arrive(int members) {
  if ((arrived_.fetch_add(1, std::memory_order_acq_rel) + 1) % members == 0)
    load(settled_);
}

}  // namespace sluice
