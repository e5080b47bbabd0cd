#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "lib/base/config.h"
#include "lib/base/table.h"
#include "modules/model_builder.h"

namespace sluice {

// Shapes of a sample that a layer takes; a sum of these.
inline constexpr unsigned kTakesTokens = 1;  ///< [T] of a text
inline constexpr unsigned kTakesFlat = 2;    ///< [C]
inline constexpr unsigned kTakesPlaces = 4;  ///< [T, C] of a text
inline constexpr unsigned kTakesMap = 8;     ///< [C, H, W]

/// Adds a layer to the last entry; throws UserError in the name of `where`.
using AddLayer =
    std::function<void(ModelBuilder& builder, std::string_view where)>;

/// A type of layer that [[model.layer]] of the model `layers` may name.
struct LayerType {
  /// Reads the options of the layer, beside its type.
  AddLayer (*configure)(Fields& fields) = nullptr;
  unsigned takes = 0;
  /// Name of the layer in the entry, which has one of each; empty: none.
  std::string_view member = {};
  /// Whether the layer multiplies by weights: then the model can be cut below
  /// it.
  bool multiplies = false;
};
using LayerRow = Row<LayerType>;

/// Rows of all types. A new type is one function and one row.
std::span<const LayerRow> layer_types();

}  // namespace sluice
