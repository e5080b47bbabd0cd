#pragma once

#include <memory>
#include <vector>

#include <nanobind/nanobind.h>

#include "lib/replicas/replica_policy.h"
#include "python/native/objects.h"

namespace sluice::python {

/// Rows of replica policies that are written in Python, of tuples like those of
/// policy_rows(): make(site), of a dict, gives what python/sluice/replicas.py
/// calls Made. With the GIL.
///
/// Each replica of a block has a policy of its own. The GIL is held around what
/// it computes, and let go while replicas wait for each other. Tensors that it
/// returns are copied: it may keep and change them.
std::vector<ReplicaPolicyRow> replica_rows(
    const nanobind::list& policies,
    const std::shared_ptr<RaisedInPython>& raised);

}  // namespace sluice::python
