#pragma once

#include <cstdint>
#include <memory>

#include "experiments/data/samples/samples.h"

namespace sluice {

/// Samples for models that train on pairs (Model::trains_on_pairs): inputs [N,
/// 2, D], each sample flattened, with its label written into it
/// (modules/label_in_sample.h) and then with a wrong one, any of the others
/// being as likely, drawn by (seed, epoch, sample). Labels are 0: the place of
/// the right one.
std::shared_ptr<const Samples> label_pairs(std::shared_ptr<const Samples> of,
                                           std::int64_t classes);

}  // namespace sluice
