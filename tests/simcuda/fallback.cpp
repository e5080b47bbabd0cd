#include "tests/simcuda/fallback.h"

#include <optional>
#include <string>
#include <vector>

#include <ATen/ops/empty_strided.h>
#include <c10/core/DeviceGuard.h>

#include "tests/simcuda/machine.h"
#include "tests/simcuda/nondeterministic.h"
#include "tests/simcuda/tensors.h"

namespace sluice::simcuda {
namespace {

/// One call: its arguments go to the CPU, its results come back.
class Call {
 public:
  Call(const c10::OperatorHandle& operation, torch::jit::Stack& stack)
      : schema_(operation.schema()), stack_(stack) {}

  void take_arguments();
  /// The device of the first argument that has one.
  int device() const { return device_.value_or(current_device()); }
  void record(const Use& use) const;
  void give_results(const Use& use);

 private:
  struct Argument {
    at::Tensor tensor;
    at::Tensor cpu;
    bool is_written = false;
  };

  at::Tensor take(const at::Tensor& tensor, bool is_written);
  c10::IValue take_list(const c10::IValue& value, bool is_written);
  at::Tensor give(const at::Tensor& cpu, const Use& use) const;
  at::Tensor copied_to_device(const at::Tensor& cpu, const Use& use) const;

  const c10::FunctionSchema& schema_;
  torch::jit::Stack& stack_;
  std::vector<Argument> arguments_;
  std::optional<int> device_;
};

at::Tensor Call::take(const at::Tensor& tensor, bool is_written) {
  if (!tensor.defined() || !tensor.is_cuda()) return tensor;
  if (!device_) device_ = tensor.get_device();
  arguments_.push_back({tensor, as_cpu(tensor), is_written});
  return arguments_.back().cpu;
}

/// Of tensors, some of which may be missing.
c10::IValue Call::take_list(const c10::IValue& value, bool is_written) {
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& each : value.toTensorVector())
      list.push_back(take(each, is_written));
    return list;
  }
  c10::List<std::optional<at::Tensor>> list;
  for (const c10::IValue& each : value.toListRef())
    list.push_back(each.isNone()
                       ? std::nullopt
                       : std::optional(take(each.toTensor(), is_written)));
  return list;
}

bool is_list_of_tensors(const c10::IValue& value) {
  if (value.isTensorList()) return true;
  if (!value.isList() || value.toListRef().empty()) return false;
  const c10::IValue& first = value.toListRef()[0];
  return first.isTensor() || first.isNone();
}

void Call::take_arguments() {
  const std::size_t count = schema_.arguments().size();
  const std::size_t first = stack_.size() - count;
  for (std::size_t i = 0; i < count; ++i) {
    c10::IValue& value = stack_[first + i];
    const c10::AliasInfo* const alias = schema_.arguments()[i].alias_info();
    const bool is_written = alias != nullptr && alias->isWrite();
    if (value.isTensor()) {
      value = take(value.toTensor(), is_written);
    } else if (is_list_of_tensors(value)) {
      value = take_list(value, is_written);
    } else if (value.isDevice() && value.toDevice().is_cuda()) {
      if (!device_) device_ = value.toDevice().index();
      value = c10::Device(c10::DeviceType::CPU);
    }
  }
}

void Call::record(const Use& use) const {
  for (const Argument& each : arguments_)
    if (each.is_written)
      write(each.tensor, use);
    else
      read(each.tensor, use);
}

at::Tensor Call::copied_to_device(const at::Tensor& cpu, const Use& use) const {
  const c10::Device where(kCuda, static_cast<c10::DeviceIndex>(device()));
  at::Tensor result =
      at::empty_strided(cpu.sizes(), cpu.strides(),
                        cpu.options().device(where).pinned_memory(false));
  if (memory_of(result) == nullptr) return result;
  write(result, use);
  as_cpu(result).copy_(cpu);
  return result;
}

/// An argument itself, a view of one, or new.
at::Tensor Call::give(const at::Tensor& cpu, const Use& use) const {
  if (!cpu.defined()) return cpu;
  for (const Argument& each : arguments_) {
    if (each.cpu.is_same(cpu)) return each.tensor;
    if (cpu.has_storage() && cpu.storage().nbytes() > 0 &&
        each.cpu.storage().data() == cpu.storage().data())
      return each.tensor.as_strided(
          cpu.sizes(), cpu.strides(),
          each.tensor.storage_offset() + cpu.storage_offset());
  }
  return copied_to_device(cpu, use);
}

void Call::give_results(const Use& use) {
  const std::size_t first = stack_.size() - schema_.returns().size();
  for (std::size_t i = first; i < stack_.size(); ++i) {
    c10::IValue& value = stack_[i];
    if (value.isTensor()) {
      value = give(value.toTensor(), use);
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& each : value.toTensorVector())
        list.push_back(give(each, use));
      value = list;
    }
  }
}

}  // namespace

void run_on_cpu(const c10::OperatorHandle& operation,
                torch::jit::Stack* stack) {
  const std::string& name = operation.schema().operator_name().name;
  TORCH_CHECK(!at::globalContext().deterministicAlgorithms() ||
                  !is_nondeterministic(name),
              name, " does not have a deterministic implementation in CUDA");
  const Lock lock(machine().mutex);
  Call call(operation, *stack);
  call.take_arguments();
  const c10::DeviceGuard on(
      c10::Device(kCuda, static_cast<c10::DeviceIndex>(call.device())));
  const Use use = start(computing_on(call.device()), name);
  ++machine().counts.launches;
  call.record(use);
  operation.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  call.give_results(use);
}

}  // namespace sluice::simcuda
