#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "lib/base/config.h"
#include "lib/base/table.h"
#include "lib/layer.h"

namespace sluice {

/// Throws UserError for an input that the model can't take.
using MakeModel = std::function<Model(const SampleSpec& sample)>;
/// Reads the model's options, eagerly.
using ConfigureModel = MakeModel (*)(Fields& options);
using ModelRow = Row<ConfigureModel>;

/// A new model is one function and one row.
std::span<const ModelRow> models();

}  // namespace sluice
