#include "lib/boundaries/policies/first_layer.h"

#include <fmt/format.h>

namespace sluice {
namespace {

class FirstLayer final : public Upper {
 public:
  /// Copies: an update writes the weights in place, or later weights into their
  /// storage.
  Tensors answer(const Block& block) override {
    const std::string layer = fmt::format("layers.{}.", block.first_layer());
    Tensors weights;
    for (const auto& [name, weight] : block.weights())
      if (name.starts_with(layer)) weights.push_back(weight.detach().clone());
    return weights;
  }
};

}  // namespace

std::unique_ptr<Upper> make_first_layer_upper(const BoundarySite& /*site*/) {
  return std::make_unique<FirstLayer>();
}

}  // namespace sluice
