#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <nanobind/nanobind.h>
#include <torch/nn/module.h>

#include "lib/base/error.h"
#include "lib/tensors/tensors.h"

// What layers and policies written in Python are made with.

namespace sluice::python {

/// For threads that don't have the GIL: it is taken to let the object go. What
/// outlives Python is left to lie.
using Held = std::shared_ptr<PyObject>;

/// With the GIL.
Held held(nanobind::object object);

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
  Held first_;
};

/// "ValueError: no such size (net.py:12)". With the GIL.
std::string one_line(const nanobind::python_error& error);

/// The network whose Python this thread runs, by its errors; nullptr: none.
inline thread_local const RaisedInPython* running_python = nullptr;

/// Does something with Python, and tells its errors as ours. With the GIL.
template <class Do>
auto in_python(RaisedInPython& raised, Do&& work) {
  struct Running {
    explicit Running(const RaisedInPython* now)
        : before(std::exchange(running_python, now)) {}
    ~Running() { running_python = before; }
    const RaisedInPython* before;
  } const running(&raised);
  try {
    return work();
  } catch (const nanobind::python_error& error) {
    raised.keep(error);
    throw UserError("{}", one_line(error));
  }
}

/// The tensor as a torch.Tensor. With the GIL.
nanobind::object as_object(const at::Tensor& tensor);

/// What a Python function gave: a tensor, or several as a tuple or list. With
/// the GIL. Throws UserError for anything else, in the name of `what` ("its
/// forward").
Tensors tensors_in(nanobind::handle given, const char* what);

/// Registers in `mirrored` the parameters and buffers of a nn.Module, under
/// their names. What has several names there has the first of them here, or it
/// would be updated as often; a frozen parameter is a buffer, and buffers that
/// are not persistent are the module's own affair. With the GIL.
void mirror(nanobind::handle module, torch::nn::Module& mirrored);

}  // namespace sluice::python
