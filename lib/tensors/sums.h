#pragma once

#include <vector>

#include "lib/tensors/tensors.h"

namespace sluice {

/// The sums of the replicas' tensors, in new ones, added in the order of the
/// replicas: ((1 + 2) + 3) + ... Undefined where all are; `parts` has one list
/// or more. Throws InternalError where the lists don't match.
Tensors sum_in_order(const std::vector<Tensors>& parts);

/// The means of the replicas' tensors, in new ones: 1 - ((1 - 2) + (1 - 3) +
/// ...) / count, which of equal ones has their bits, -0 included, where a sum
/// would be rounded. As sum_in_order() otherwise.
Tensors mean_in_order(const std::vector<Tensors>& parts);
/// The mean of one tensor of each replica, into one that lies as they do.
void mean_into(at::Tensor& mean, const Tensors& parts);

}  // namespace sluice
