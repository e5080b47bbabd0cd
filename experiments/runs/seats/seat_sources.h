#pragma once

#include <memory>

#include <c10/core/Device.h>

#include "experiments/config/experiment.h"
#include "experiments/data/order/sample_source.h"
#include "lib/blocks/source.h"
#include "lib/schedules/plan/plan.h"
#include "lib/workers/seat.h"

namespace sluice {

/// The batches that the experiment trains with, or those that an assistant
/// chooses from; reads the training files.
std::unique_ptr<SampleSource> training_source(const Experiment& experiment);

/// Sources of batches for a seat that computes on `device`: those of the
/// experiment's data, made ahead by threads of their own; or where it is given
/// batches, `fed`. Without sources where it needs none.
Sources sources_of(const Experiment& experiment, const BlockPlan& seat,
                   const c10::Device& device, std::shared_ptr<Source> fed);

}  // namespace sluice
