#include "experiments/data/samples/input_store.h"

#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/index_select.h>

namespace sluice {

at::Tensor InputTable::gathered(const at::Tensor& places) const {
  if (!values.defined()) {
    const at::Tensor of_tokens = places.unsqueeze(1) + steps;
    return rows.index_select(0, of_tokens.flatten())
        .to(at::kLong)
        .view(of_tokens.sizes());
  }
  // The sum of bytes and int32 is int32.
  const at::Tensor of_values = at::add(rows.index_select(0, places), steps);
  return values.index_select(0, of_values.flatten()).view(of_values.sizes());
}

InputTable InputTable::on(const c10::Device& device) const {
  const auto moved = [&](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.to(device) : tensor;
  };
  return {moved(rows), moved(values), moved(steps)};
}

InputStore::InputStore(std::int64_t bytes, std::function<InputTable()> read)
    : bytes_(bytes), read_(std::move(read)) {}

std::shared_ptr<const InputTable> InputStore::on(
    const c10::Device& device) const {
  const std::lock_guard lock(mutex_);
  std::weak_ptr<const InputTable>& kept = tables_[device.str()];
  std::shared_ptr<const InputTable> table = kept.lock();
  if (!table) {
    table = std::make_shared<const InputTable>(read_().on(device));
    kept = table;
  }
  return table;
}

}  // namespace sluice
