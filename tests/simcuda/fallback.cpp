#include "tests/simcuda/fallback.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/ops/empty.h>
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

  /// Throws, as CUDA's operations do, where tensors lie on several devices.
  void take_arguments();
  /// The device of the first argument that has one.
  int device() const { return device_.value_or(current_device()); }
  void record(const Use& use) const;
  void give_results(const Use& use);
  /// Puts new ones into memory that was given at a capture, in their order.
  void put_results(const std::vector<at::Tensor>& places, const Use& use);

 private:
  void expect_one_device(const at::Tensor& tensor);
  void grow_outputs(const Use& use);

  struct Argument {
    at::Tensor tensor;
    at::Tensor cpu;
    bool is_written = false;
    bool may_grow = false;  ///< `cpu` has memory of its own
  };

  /// What an operation does with a tensor. One that is for its result alone
  /// (out = ...) is made as large as the result.
  enum class Access { reads, writes, puts_out };
  at::Tensor take(const at::Tensor& tensor, Access access);
  c10::IValue take_list(const c10::IValue& value, Access access);
  std::optional<at::Tensor> alias_of(const at::Tensor& cpu) const;
  at::Tensor give(const at::Tensor& cpu, const Use& use) const;
  at::Tensor copied_to_device(const at::Tensor& cpu, const Use& use) const;

  const c10::FunctionSchema& schema_;
  torch::jit::Stack& stack_;
  std::vector<Argument> arguments_;
  std::optional<int> device_;
  bool has_host_tensor_ = false;
};

/// Operations of CUDA that take some tensors from the host, or whose lists may
/// lie on several devices.
bool may_mix_devices(std::string_view name) {
  constexpr std::array<std::string_view, 6> kMixed = {
      "aten::index",        "aten::index_put",        "aten::index_put_",
      "aten::tensor_split", "aten::_index_put_impl_", "aten::_foreach_"};
  return std::any_of(kMixed.begin(), kMixed.end(), [&](std::string_view each) {
    return each.back() == '_' ? name.starts_with(each) : name == each;
  });
}

/// Numbers of no dimension may lie on the host.
void Call::expect_one_device(const at::Tensor& tensor) {
  if (may_mix_devices(schema_.name())) return;
  if (tensor.is_cpu() && tensor.dim() == 0) return;
  has_host_tensor_ |= tensor.is_cpu();
  const bool is_elsewhere =
      tensor.is_cuda() && device_ && tensor.get_device() != *device_;
  TORCH_CHECK(!is_elsewhere && !(has_host_tensor_ && device_),
              "Expected all tensors to be on the same device, but found at "
              "least two: ",
              schema_.name(), " got one on ", tensor.device());
}

at::Tensor Call::take(const at::Tensor& tensor, Access access) {
  if (!tensor.defined()) return tensor;
  if (tensor.is_cuda() && !device_) device_ = tensor.get_device();
  expect_one_device(tensor);
  if (!tensor.is_cuda()) return tensor;
  const bool is_written = access != Access::reads;
  const bool may_grow =
      is_written && tensor.numel() <= (access == Access::puts_out ? 1 : 0);
  arguments_.push_back(
      {tensor,
       may_grow ? at::empty(tensor.sizes(), tensor.options().device(at::kCPU))
                : as_cpu(tensor),
       is_written, may_grow});
  return arguments_.back().cpu;
}

/// Takes a list of tensors, some of which may be missing.
c10::IValue Call::take_list(const c10::IValue& value, Access access) {
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& each : value.toTensorVector())
      list.push_back(take(each, access));
    return list;
  }
  c10::List<std::optional<at::Tensor>> list;
  for (const c10::IValue& each : value.toListRef())
    list.push_back(each.isNone()
                       ? std::nullopt
                       : std::optional(take(each.toTensor(), access)));
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
    const c10::Argument& argument = schema_.arguments()[i];
    const c10::AliasInfo* const alias = argument.alias_info();
    const Access access = argument.is_out() ? Access::puts_out
                          : alias != nullptr && alias->isWrite()
                              ? Access::writes
                              : Access::reads;
    if (value.isTensor()) {
      value = take(value.toTensor(), access);
    } else if (is_list_of_tensors(value)) {
      value = take_list(value, access);
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

/// An argument itself, or a view of one.
std::optional<at::Tensor> Call::alias_of(const at::Tensor& cpu) const {
  for (const Argument& each : arguments_) {
    if (each.cpu.is_same(cpu)) return each.tensor;
    if (cpu.has_storage() && cpu.storage().nbytes() > 0 &&
        each.cpu.storage().data() == cpu.storage().data())
      return each.tensor.as_strided(
          cpu.sizes(), cpu.strides(),
          each.tensor.storage_offset() + cpu.storage_offset());
  }
  return std::nullopt;
}

at::Tensor Call::give(const at::Tensor& cpu, const Use& use) const {
  if (!cpu.defined()) return cpu;
  const std::optional<at::Tensor> alias = alias_of(cpu);
  return alias ? *alias : copied_to_device(cpu, use);
}

void Call::grow_outputs(const Use& use) {
  for (const Argument& each : arguments_) {
    if (!each.may_grow) continue;
    if (each.cpu.sizes() != each.tensor.sizes())
      each.tensor.resize_(each.cpu.sizes());
    write(each.tensor, use);
    as_cpu(each.tensor).copy_(each.cpu);
  }
}

void Call::give_results(const Use& use) {
  grow_outputs(use);
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

std::vector<at::Tensor> tensors_in(std::span<const c10::IValue> values) {
  std::vector<at::Tensor> all;
  for (const c10::IValue& value : values)
    if (value.isTensor())
      all.push_back(value.toTensor());
    else if (value.isTensorList())
      for (const at::Tensor& each : value.toTensorVector()) all.push_back(each);
  return all;
}

std::span<const c10::IValue> last_of(const torch::jit::Stack& stack,
                                     std::size_t count) {
  return std::span(stack).last(count);
}

void Call::put_results(const std::vector<at::Tensor>& places, const Use& use) {
  grow_outputs(use);
  const std::vector<at::Tensor> results =
      tensors_in(last_of(stack_, schema_.returns().size()));
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].defined() || memory_of(places.at(i)) == nullptr ||
        alias_of(results[i]))
      continue;
    write(places[i], use);
    as_cpu(places[i]).copy_(results[i]);
  }
}

/// The argument as a graph keeps it: of a device its address; numbers on the
/// host as they are now.
c10::IValue kept_argument(const c10::IValue& value) {
  const auto kept = [](const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.is_cpu()) return unowned(tensor);
    at::Tensor copy = tensor.clone();
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number())
      copy.unsafeGetTensorImpl()->set_wrapped_number(true);
    return copy;
  };
  if (value.isTensor()) return kept(value.toTensor());
  if (!is_list_of_tensors(value)) return value;
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& each : value.toTensorVector())
      list.push_back(kept(each));
    return list;
  }
  c10::List<std::optional<at::Tensor>> list;
  for (const c10::IValue& each : value.toListRef())
    list.push_back(each.isNone() ? std::nullopt
                                 : std::optional(kept(each.toTensor())));
  return list;
}

const c10::DispatchKeySet kCpu(c10::DispatchKey::CPU);

/// What the call does when its graph is replayed.
GraphStep step_of(const c10::OperatorHandle& operation,
                  const torch::jit::Stack& arguments,
                  std::span<const c10::IValue> results) {
  torch::jit::Stack kept;
  for (const c10::IValue& value : arguments)
    kept.push_back(kept_argument(value));
  std::vector<at::Tensor> places;
  for (const at::Tensor& each : tensors_in(results))
    places.push_back(unowned(each));
  return [operation, kept, places](const Use& replay) {
    torch::jit::Stack stack = kept;
    Call call(operation, stack);
    call.take_arguments();
    call.record(replay);
    operation.redispatchBoxed(kCpu, &stack);
    call.put_results(places, replay);
  };
}

}  // namespace

void run_on_cpu(const c10::OperatorHandle& operation,
                torch::jit::Stack* stack) {
  const std::string& name = operation.schema().operator_name().name;
  TORCH_CHECK(!at::globalContext().deterministicAlgorithms() ||
                  !is_nondeterministic(name),
              name, " does not have a deterministic implementation in CUDA");
  const Lock lock(machine().mutex);
  const auto given = last_of(*stack, operation.schema().arguments().size());
  const torch::jit::Stack arguments(given.begin(), given.end());
  Call call(operation, *stack);
  call.take_arguments();
  const c10::DeviceGuard on(
      c10::Device(kCuda, static_cast<c10::DeviceIndex>(call.device())));
  Capture* const capture = capture_here(call.device());
  if (capture != nullptr) check_can_be_captured(operation.schema(), arguments);
  const Use use =
      capture == nullptr ? start(computing_on(call.device()), name) : Use();
  if (capture == nullptr) ++machine().counts.launches;
  call.record(use);
  operation.redispatchBoxed(kCpu, stack);
  call.give_results(use);
  if (capture != nullptr)
    capture->add(step_of(operation, arguments,
                         last_of(*stack, operation.schema().returns().size())));
}

}  // namespace sluice::simcuda
