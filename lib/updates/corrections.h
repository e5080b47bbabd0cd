#pragma once

#include <span>

#include "lib/base/config.h"
#include "lib/base/table.h"
#include "lib/updates/optimizer.h"

namespace sluice {

/// Reads the keys that a correction has beside its name. `options` are those of
/// the optimizer, read: a correction may refuse them, or want the weights of
/// the forward.
using ReadCorrection = MakeCorrection (*)(Fields& fields,
                                          OptimizerOptions& options);
using CorrectionRow = Row<ReadCorrection>;

/// Corrections of stale gradients: links of an update that read the staleness
/// of what is applied, in updates of the block, as the headers of the batches
/// say it (a window's mean). Without staleness each is the identity, bit for
/// bit. A new one is one source file and one row.
std::span<const CorrectionRow> corrections();

/// The table `correction` of [optimizer], after all other keys: at most one,
/// for two would make up for the same delay twice.
void describe_correction(Fields& fields, OptimizerOptions& options);

}  // namespace sluice
