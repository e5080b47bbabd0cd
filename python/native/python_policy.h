#pragma once

#include <memory>
#include <vector>

#include <nanobind/nanobind.h>

#include "lib/boundaries/boundary.h"
#include "python/native/objects.h"

namespace sluice::python {

/// Rows of policies that are written in Python, of tuples (name, text, make):
/// the text stands in configs as `made_by`, and make(site), of a dict, gives
/// what python/sluice/policies.py calls Made. With the GIL.
///
/// A policy's tensors are named as those of a local loss's head. The GIL is
/// held around what it computes in Python; gradients of a loss are taken
/// without it.
std::vector<PolicyRow> policy_rows(
    const nanobind::list& policies,
    const std::shared_ptr<RaisedInPython>& raised);

}  // namespace sluice::python
