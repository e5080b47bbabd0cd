#pragma once

#include <span>

#include "lib/base/config.h"
#include "lib/base/table.h"
#include "lib/updates/optimizer.h"

namespace sluice {

/// A link of an update that a config puts there by its name, behind those that
/// are always in their place (transforms()) and before the optimizer.
struct ChosenTransform {
  /// Reads the keys that it has beside its name. `options` are those of the
  /// optimizer, read but for `average`: it may refuse them, or set wants_whole.
  MakeCorrection (*read)(Fields& fields, OptimizerOptions& options) = nullptr;
};
using ChosenTransformRow = Row<ChosenTransform>;

/// Rows of transforms that a config names. None is built in: plug-ins add them.
std::span<const ChosenTransformRow> chosen_transforms();

/// The list `transform` of [optimizer], in the order in which they are applied.
/// Where there are none, there is no such key.
void describe_transforms(Fields& fields, OptimizerOptions& options);

}  // namespace sluice
