#include "tests/simcuda/capture.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>

#include <c10/util/Exception.h>

#include "tests/simcuda/device_memory.h"
#include "tests/simcuda/machine.h"

namespace sluice::simcuda {
namespace {

/// Memory of the graph holds nothing yet; other memory what is there now.
GraphMemory::Bytes copy_of(const Allocation& allocation, bool is_new) {
  GraphMemory::Bytes bytes(allocation.bytes, std::byte{kPoison});
  if (is_new) return bytes;
  if (allocation.graph) {
    const auto found = allocation.graph->captured.find(allocation.data);
    if (found != allocation.graph->captured.end()) return found->second;
  }
  finish_copies_into(allocation);
  const std::byte* const begin = bytes_at(allocation, allocation.data);
  std::copy(begin, begin + allocation.bytes, bytes.begin());
  return bytes;
}

}  // namespace

std::byte* Capture::bytes_of(const Allocation& allocation) {
  auto found = copies_.find(allocation.data);
  if (found == copies_.end())
    found = copies_
                .emplace(allocation.data,
                         copy_of(allocation, allocation.graph == memory_))
                .first;
  return found->second.data();
}

std::vector<GraphStep> Capture::finish() {
  for (auto& [data, bytes] : copies_)
    if (const Allocation* const found = find_allocation(data);
        found != nullptr && found->graph == memory_)
      memory_->captured[data] = std::move(bytes);
  copies_.clear();
  return std::move(steps_);
}

std::byte* Capture::reused(std::size_t bytes) {
  const auto found = memory_->released.find(bytes);
  if (found == memory_->released.end()) return nullptr;
  std::byte* const data = found->second;
  memory_->released.erase(found);
  copies_.erase(data);
  return data;
}

Capture* capture_of(std::size_t stream) {
  const auto& all = machine().captures;
  const auto found = all.find(stream);
  return found == all.end() ? nullptr : found->second;
}

Capture* capture_here(int device) {
  return machine().captures.empty() ? nullptr
                                    : capture_of(computing_on(device));
}

void refuse_in_capture(std::string_view call) {
  TORCH_CHECK(
      false,
      "CUDA error: operation not permitted when stream is capturing: ", call);
}

void check_no_capture(std::string_view call) {
  for (const auto& [stream, capture] : machine().captures)
    if (capture->is_of_this_thread()) refuse_in_capture(call);
}

namespace {

/// Sizes of their results follow from values, so that CUDA's host waits.
bool waits_for_values(const std::string& operation) {
  static const std::set<std::string> names = {
      "aten::_unique2",       "aten::bincount",
      "aten::equal",          "aten::is_nonzero",
      "aten::masked_select",  "aten::nonzero",
      "aten::unique_dim",     "aten::unique_consecutive",
      "aten::masked_scatter", "aten::repeat_interleave"};
  return names.contains(operation);
}

/// Drawn by LibTorch's generator.
bool is_random(const std::string& operation) {
  static const std::set<std::string> names = {
      "aten::bernoulli",  "aten::bernoulli_",   "aten::normal_",
      "aten::normal",     "aten::uniform_",     "aten::random_",
      "aten::randperm",   "aten::exponential_", "aten::multinomial",
      "aten::geometric_", "aten::log_normal_",  "aten::native_dropout",
      "aten::cauchy_",    "aten::poisson",      "aten::rrelu_with_noise"};
  return names.contains(operation);
}

bool has_bools(const c10::IValue& value) {
  const auto is_mask = [](const at::Tensor& tensor) {
    return tensor.defined() && (tensor.scalar_type() == at::kBool ||
                                tensor.scalar_type() == at::kByte);
  };
  if (!value.isList()) return false;
  const auto items = value.toListRef();
  return std::any_of(items.begin(), items.end(), [&](const auto& item) {
    return item.isTensor() && is_mask(item.toTensor());
  });
}

/// A mask says how many elements are meant.
bool is_indexed_by_masks(const std::string& operation,
                         const torch::jit::Stack& arguments) {
  constexpr std::array<std::string_view, 4> kIndexing = {
      "aten::index", "aten::index_put", "aten::index_put_",
      "aten::_index_put_impl_"};
  return std::find(kIndexing.begin(), kIndexing.end(), operation) !=
             kIndexing.end() &&
         std::any_of(arguments.begin(), arguments.end(), has_bools);
}

}  // namespace

void check_can_be_captured(const c10::FunctionSchema& operation,
                           const torch::jit::Stack& arguments) {
  const std::string& name = operation.name();
  if (waits_for_values(name) || is_random(name) ||
      is_indexed_by_masks(name, arguments))
    refuse_in_capture(name);
}

}  // namespace sluice::simcuda
