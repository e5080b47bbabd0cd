#pragma once

#include <cstdint>
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
/// As that, where each counts by a weight above 0: 1 + (w_2 (2 - 1) + w_3 (3 -
/// 1) + ...) / sum of w. Of equal weights it has the bits of mean_in_order().
Tensors weighted_mean_in_order(const std::vector<Tensors>& parts,
                               const std::vector<std::int64_t>& weights);
/// The mean of one tensor of each replica, into one that lies as they do.
void mean_into(at::Tensor& mean, const Tensors& parts);

}  // namespace sluice
