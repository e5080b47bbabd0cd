#pragma once

#include <functional>
#include <memory>

#include "lib/boundaries/policies/plug_ins.h"

namespace sluice {

using MakeUnlock = std::function<std::shared_ptr<Unlock>(const Site& site)>;

/// The section "unlock"; empty when it isn't there.
MakeUnlock read_unlock(Fields& options, const PlugIns& plug_ins);

/// The section "optimizer" of something that trains by itself; nothing: the
/// block's.
std::optional<OptimizerOptions> read_own_optimizer(Fields& options);

}  // namespace sluice
