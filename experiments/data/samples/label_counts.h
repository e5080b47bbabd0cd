#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace sluice {

/// What whole numbers are as labels, for people: "labels 0 to 9, 900 to 1100
/// samples each", "labels 1 to 10; 1 of 11 classes has no sample".
std::string labels_text(std::span<const std::int64_t> labels,
                        std::int64_t classes);

/// The classes of training labels where the config doesn't give their number:
/// the largest and 1. Throws UserError where this is more than there are
/// samples, as by one label that is no class's number, and where all labels are
/// 0. `name`: the file's.
std::int64_t classes_of_labels(std::span<const std::int64_t> labels,
                               const std::string& name);

}  // namespace sluice
