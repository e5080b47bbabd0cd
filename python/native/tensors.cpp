#include "python/native/tensors.h"

#include <torch/csrc/autograd/python_variable.h>

namespace sluice::python {

PyObject* from_tensor(const at::Tensor& tensor) {
  return THPVariable_Wrap(tensor);
}

bool is_tensor(PyObject* object) {
  return THPVariable_Check(object);
}

at::Tensor to_tensor(PyObject* object) {
  return THPVariable_Unpack(object);
}

}  // namespace sluice::python
