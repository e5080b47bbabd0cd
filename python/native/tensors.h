#pragma once

#include <ATen/core/Tensor.h>
#include <Python.h>

// Tensors as torch's Python has them: the very tensor, with its place in a
// graph of autograd. Apart from nanobind, for torch's headers bring pybind11.

namespace sluice::python {

/// A new reference to the torch.Tensor; nullptr with Python's error set. With
/// the GIL.
PyObject* from_tensor(const at::Tensor& tensor);

/// Whether it is a torch.Tensor. With the GIL.
bool is_tensor(PyObject* object);

/// The tensor that it is. With the GIL; it must be one.
at::Tensor to_tensor(PyObject* object);

}  // namespace sluice::python
