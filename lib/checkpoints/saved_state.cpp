#include "lib/checkpoints/saved_state.h"

#include <charconv>
#include <set>
#include <utility>

#include <ATen/ATen.h>

#include "lib/base/buffer.h"
#include "lib/base/error.h"
#include "lib/tensors/gpu/staged_sender.h"
#include "lib/tensors/pack.h"

namespace sluice {

void save_list(const Tensors& tensors, std::string_view name,
               NamedTensors& into) {
  save_number(std::ssize(tensors), fmt::format("{}.count", name), into);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::string item = fmt::format("{}.{}", name, i);
    if (!tensors[i].defined()) continue;
    TensorView view = staged(view_of(tensors[i], item));
    into.emplace_back(item + ".sizes", at::tensor(view.sizes, at::kLong));
    into.emplace_back(item + ".strides", at::tensor(view.strides, at::kLong));
    const auto element = static_cast<std::int64_t>(tensors[i].element_size());
    view.sizes = {static_cast<std::int64_t>(view.buffer.bytes) / element};
    view.strides = {1};
    into.emplace_back(item + ".elements", tensor_of(view));
  }
}

void save_number(std::int64_t value, std::string_view name,
                 NamedTensors& into) {
  into.emplace_back(name, at::scalar_tensor(value, at::kLong));
}

SavedState::SavedState(const NamedTensors& tensors, std::string_view source)
    : tensors_(tensors.begin(), tensors.end()), source_(source) {}

const at::Tensor& SavedState::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end())
    throw UserError("{}: has no tensor '{}'", source_, name);
  return found->second;
}

const at::Tensor& SavedState::whole_numbers(const std::string& name) const {
  const at::Tensor& found = find(name);
  if (found.scalar_type() != at::kLong)
    throw UserError("{}: tensor '{}' is of {}, expected Long", source_, name,
                    c10::toString(found.scalar_type()));
  return found;
}

Tensors SavedState::list(const std::string& name) const {
  Tensors tensors(static_cast<std::size_t>(number(name + ".count")));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::string item = fmt::format("{}.{}", name, i);
    if (!has(item + ".sizes")) continue;  // undefined
    const auto dimensions = [&](const std::string& of) {
      const at::Tensor values = whole_numbers(item + of).contiguous();
      const auto* first = values.const_data_ptr<std::int64_t>();
      return std::vector<std::int64_t>(first, first + values.numel());
    };
    const auto sizes = dimensions(".sizes");
    const auto strides = dimensions(".strides");
    // A clone starts on the boundary that bits depend on.
    const at::Tensor elements = find(item + ".elements").clone();
    const std::size_t stored = stored_bytes(DType::uint8, sizes, strides);
    if (stored != static_cast<std::size_t>(elements.numel()))
      throw UserError("{}: tensor '{}' is cut off", source_, item);
    tensors[i] = elements.as_strided(sizes, strides);
  }
  return tensors;
}

std::int64_t SavedState::number(const std::string& name) const {
  return whole_numbers(name).item<std::int64_t>();
}

std::vector<std::int64_t> SavedState::numbers_below(
    const std::string& name) const {
  std::set<std::int64_t> numbers;
  const std::string prefix = name + ".";
  for (auto item = tensors_.lower_bound(prefix);
       item != tensors_.end() && item->first.starts_with(prefix); ++item) {
    const char* first = item->first.data() + prefix.size();
    const char* last = item->first.data() + item->first.size();
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(first, last, number);
    if (error == std::errc() && end != last && *end == '.')
      numbers.insert(number);
  }
  return {numbers.begin(), numbers.end()};
}

}  // namespace sluice
