#pragma once

#include <memory>
#include <vector>

#include <c10/core/Device.h>

#include "experiments/data/samples/samples.h"
#include "lib/blocks/block.h"
#include "lib/blocks/source.h"

namespace sluice {

// Inputs of a data set that lies on block 1's GPU are gathered there:
// gathered(in_order_of_copies(prefetched(copied_ahead(source of places_of()))))
// copies the places of a batch's samples instead of their inputs.

/// The samples, whose batches have places in input_store() for inputs.
std::shared_ptr<const Samples> places_of(std::shared_ptr<const Samples> of);

/// Source of the batches at these places: the caller's stream gathers their
/// inputs, laid out as the format says.
std::unique_ptr<Source> gathered(std::unique_ptr<Source> places,
                                 std::shared_ptr<const InputTable> table,
                                 MemoryFormat format);

/// Whether tables of these bytes take at most a quarter of the memory that is
/// free on the device.
bool fit_on(const c10::Device& device, std::int64_t bytes);

}  // namespace sluice
