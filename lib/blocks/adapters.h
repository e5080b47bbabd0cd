#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/blocks/fused_linear.h"
#include "lib/blocks/layer.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// The linear layers inside a layer that may have an adapter
/// (FusedLinearImpl::adapt()), by their names there: "attention.qkv"; "" where
/// it is one itself.
std::vector<std::pair<std::string, FusedLinearImpl*>> linear_layers_in(
    Layer& layer);

/// Sets the adapters of a layer from `key` alone, such that they add nothing.
void begin_adapters(Layer& layer, std::uint64_t key);

/// A layer of that kind for a head of its own: `key` sets its weights, and all
/// of them train, whatever the model's do.
std::shared_ptr<Layer> trained_layer(const LayerSpec& spec, std::uint64_t key);

/// Whether a tensor of that name belongs to an adapter.
bool is_of_adapter(std::string_view name);

/// The tensors without those of adapters, whose products are added to the
/// weights beside them: the same outputs but for rounding. Shares all others
/// with `tensors`.
NamedTensors with_merged_adapters(const NamedTensors& tensors,
                                  const AdapterOptions& options);

/// The tensors without those of adapters that `found` doesn't have: they stay
/// as they begin.
NamedTensors without_missing_adapters(const NamedTensors& tensors,
                                      const NamedTensors& found);

}  // namespace sluice
