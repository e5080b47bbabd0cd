#include "python/native/objects.h"

#include <set>

#include <nanobind/stl/string.h>

#include "python/native/tensors.h"

namespace sluice::python {
namespace {

namespace nb = nanobind;

using TensorSet = std::set<const c10::TensorImpl*>;

void mirror_unseen(nb::handle module, torch::nn::Module& mirrored,
                   TensorSet& seen) {
  const auto add = [&](nb::handle key, nb::handle value, bool trains) {
    if (!is_tensor(value.ptr())) return;
    const at::Tensor tensor = to_tensor(value.ptr());
    if (!seen.insert(tensor.unsafeGetTensorImpl()).second) return;
    const auto name = nb::cast<std::string>(key);
    if (trains && tensor.requires_grad())
      mirrored.register_parameter(name, tensor);
    else
      mirrored.register_buffer(name, tensor);  // also a frozen parameter
  };
  for (const auto [key, value] : nb::cast<nb::dict>(module.attr("_parameters")))
    add(key, value, true);
  const nb::object passing = module.attr("_non_persistent_buffers_set");
  for (const auto [key, value] : nb::cast<nb::dict>(module.attr("_buffers")))
    if (!nb::cast<bool>(passing.attr("__contains__")(key)))
      add(key, value, false);
  for (const nb::handle item : module.attr("named_children")()) {
    const auto name = nb::cast<std::string>(item[0]);
    mirror_unseen(item[1],
                  *mirrored.register_module(
                      name, std::make_shared<torch::nn::Module>(name)),
                  seen);
  }
}

}  // namespace

Held held(nb::object object) {
  return {object.release().ptr(), [](PyObject* it) {
            if (!nb::is_alive()) return;
            const nb::gil_scoped_acquire gil;
            Py_XDECREF(it);
          }};
}

void RaisedInPython::keep(const nb::python_error& error) {
  Held value = held(nb::borrow(error.value()));
  const std::lock_guard lock(mutex_);
  if (!first_) first_ = std::move(value);
}

nb::object RaisedInPython::take() {
  Held first;
  {
    const std::lock_guard lock(mutex_);
    first = std::exchange(first_, nullptr);
  }
  return first ? nb::borrow(first.get()) : nb::none();
}

std::string one_line(const nb::python_error& error) {
  std::string text = nb::cast<std::string>(error.type().attr("__name__"));
  const std::string said =
      nb::cast<std::string>(nb::str(nb::handle(error.value())));
  if (!said.empty()) text += ": " + said;
  nb::object at = nb::borrow(error.traceback());
  if (at.is_none() || !at.is_valid()) return text;
  while (!nb::object(at.attr("tb_next")).is_none()) at = at.attr("tb_next");
  const std::string file = nb::cast<std::string>(
      at.attr("tb_frame").attr("f_code").attr("co_filename"));
  return fmt::format("{} ({}:{})", text, file.substr(file.rfind('/') + 1),
                     nb::cast<int>(at.attr("tb_lineno")));
}

nb::object as_object(const at::Tensor& tensor) {
  PyObject* const wrapped = from_tensor(tensor);
  if (wrapped == nullptr) throw nb::python_error();
  return nb::steal(wrapped);
}

Tensors tensors_in(nb::handle given, const char* what) {
  if (is_tensor(given.ptr())) return {to_tensor(given.ptr())};
  Tensors tensors;
  if (nb::isinstance<nb::tuple>(given) || nb::isinstance<nb::list>(given))
    for (const nb::handle item : given) {
      if (!is_tensor(item.ptr())) break;
      tensors.push_back(to_tensor(item.ptr()));
    }
  if (tensors.empty() || tensors.size() != nb::len(given))
    throw UserError(
        "{} gives a {}: it should give a tensor, or a tuple of them", what,
        nb::cast<std::string>(given.type().attr("__name__")));
  return tensors;
}

void mirror(nb::handle module, torch::nn::Module& mirrored) {
  TensorSet seen;
  mirror_unseen(module, mirrored, seen);
}

}  // namespace sluice::python
