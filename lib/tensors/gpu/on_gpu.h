#pragma once

#include <cstddef>
#include <vector>

#include "lib/tensors/tensors.h"

namespace sluice {

/// Tensors of a list that are defined and lie on a GPU, where an
/// operation of many (at::_foreach_...) is one launch, or few.
struct TensorsOnGpu {
  std::vector<std::size_t> places = {};  ///< in the list, in their order
  Tensors tensors = {};

  void add(std::size_t place, const at::Tensor& tensor) {
    places.push_back(place);
    tensors.push_back(tensor);
  }
  /// Puts the values at the places of the tensors that they are for.
  void put(const Tensors& values, Tensors& list) const {
    for (std::size_t i = 0; i < places.size(); ++i) list[places[i]] = values[i];
  }
};

inline TensorsOnGpu those_on_gpu(const Tensors& list) {
  TensorsOnGpu found;
  for (std::size_t i = 0; i < list.size(); ++i)
    if (list[i].defined() && !list[i].is_cpu()) found.add(i, list[i]);
  return found;
}

}  // namespace sluice
