#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/tensors/tensors.h"

namespace sluice {

/// Adds the tensors as "<name>.0", "<name>.1", ... with their strides, which
/// bits depend on: an expanded tensor comes back expanded, an
/// undefined one undefined.
void save_list(const Tensors& tensors, std::string_view name,
               NamedTensors& into);
/// Adds a whole number.
void save_number(std::int64_t value, std::string_view name, NamedTensors& into);

/// The state part of a checkpoint, for what has no fixed shape or number.
/// Throws UserError, naming the source, when something that is asked for is not
/// there.
class SavedState {
 public:
  SavedState(const NamedTensors& tensors, std::string_view source);

  bool has(const std::string& name) const { return tensors_.contains(name); }
  Tensors list(const std::string& name) const;
  std::int64_t number(const std::string& name) const;
  /// The n, ascending, for which there is anything called "<name>.<n>.*".
  std::vector<std::int64_t> numbers_below(const std::string& name) const;

 private:
  const at::Tensor& find(const std::string& name) const;
  const at::Tensor& whole_numbers(const std::string& name) const;

  std::map<std::string, at::Tensor> tensors_;
  std::string source_;
};

}  // namespace sluice
