#pragma once

#include <memory>
#include <vector>

#include <nanobind/nanobind.h>

#include "experiments/api/layer_factory.h"
#include "python/native/objects.h"

namespace sluice::python {

/// Factories of layers, of Python functions that return nn.Modules. The
/// parameters and buffers of a layer are those of its module, under the same
/// names; buffers that are not persistent are the module's own affair. A
/// module's forward takes and returns a tensor, or several as a tuple; Python's
/// lock is held around it and around what makes, asks and deletes modules. With
/// the GIL.
std::vector<LayerFactory> layer_factories(
    const nanobind::list& functions,
    const std::shared_ptr<RaisedInPython>& raised);

}  // namespace sluice::python
