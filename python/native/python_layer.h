#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include <nanobind/nanobind.h>

#include "experiments/api/layer_factory.h"

namespace sluice::python {

/// What the first Python code that failed in a network has raised, for the
/// error that the caller gets. Any thread may use it.
class RaisedInPython {
 public:
  /// With the GIL.
  void keep(const nanobind::python_error& error);
  /// The exception, once; None when nothing was raised. With the GIL.
  nanobind::object take();

 private:
  std::mutex mutex_;
  std::shared_ptr<PyObject> first_;
};

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
