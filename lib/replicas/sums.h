#pragma once

#include <vector>

#include "lib/tensors/tensors.h"

namespace sluice {

/// The sums of the replicas' tensors, in new ones, added in the order of the
/// replicas: ((1 + 2) + 3) + ... Undefined where all are; `parts` has one list
/// or more. Throws InternalError where the lists don't match.
Tensors sum_in_order(const std::vector<Tensors>& parts);

}  // namespace sluice
