#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lib/tensors/tensors.h"

namespace sluice {

/// Likeness of two gradients.
struct Likeness {
  double cosine = 0;          ///< 1: the same direction
  double norm_ratio = 0;      ///< |applied| / |true|
  double sign_agreement = 0;  ///< share of elements of equal sign, 0..1
};

/// Over all the elements together; an undefined tensor counts as 0. Both have
/// the same number of tensors of the same shapes.
Likeness likeness(const Tensors& applied, const Tensors& truth);

/// Named values for the metrics.
using Figures = std::vector<std::pair<std::string, double>>;

/// Names of the figures: "<prefix>cosine", "<prefix>norm_ratio",
/// "<prefix>sign_agreement".
Figures figures_of(const Likeness& likeness, const std::string& prefix = "");

}  // namespace sluice
