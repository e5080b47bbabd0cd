#pragma once

#include <cstdint>
#include <string>

#include "experiments/config/experiment.h"
#include "lib/base/config.h"

namespace sluice {

/// data.on_device: whether the data set lies on block 1's GPU.
enum class DataPlacement : std::uint8_t { never, if_it_fits, always };

/// Reads the key, in the table `data`.
void describe_on_device(Fields& fields);
/// What a resolved config says; it may be from before the key existed.
DataPlacement on_device_in(const ConfigNode& resolved);

/// What keeps batches from being made on block 1's GPU, with a remedy; empty:
/// nothing that the config tells.
std::string kept_off_device(const Experiment& experiment);
/// Throws UserError where the data set shall always lie there, and can't.
void check_on_device(const Experiment& experiment, const Fields& top);

/// Whether any block keeps, or relays to blocks above, that attachment.
bool need(const Plans& plans, const char* attachment);

}  // namespace sluice
