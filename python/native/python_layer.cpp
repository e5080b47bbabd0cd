#include "python/native/python_layer.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include <nanobind/stl/string.h>

#include "lib/base/error.h"
#include "lib/blocks/layer.h"
#include "modules/scripted_dropout.h"
#include "python/native/tensors.h"

namespace sluice::python {
namespace {

namespace nb = nanobind;

/// For threads that don't have the GIL: it is taken to let the object go. What
/// outlives Python is left to lie.
using Held = std::shared_ptr<PyObject>;

Held held(nb::object object) {
  return {object.release().ptr(), [](PyObject* it) {
            if (!nb::is_alive()) return;
            const nb::gil_scoped_acquire gil;
            Py_XDECREF(it);
          }};
}

nb::object as_object(const at::Tensor& tensor) {
  PyObject* const wrapped = from_tensor(tensor);
  if (wrapped == nullptr) throw nb::python_error();
  return nb::steal(wrapped);
}

/// "ValueError: no such size (net.py:12)"
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

/// Does something with Python, and tells its errors as ours. With the GIL.
template <class Do>
auto in_python(RaisedInPython& raised, Do&& work) {
  try {
    return work();
  } catch (const nb::python_error& error) {
    raised.keep(error);
    throw UserError("{}", one_line(error));
  }
}

/// A nn.Module as a layer.
class PythonLayer final : public Layer {
 public:
  PythonLayer(nb::object module, std::shared_ptr<RaisedInPython> raised)
      : raised_(std::move(raised)) {
    mirror(module, *this);
    module_ = held(std::move(module));
  }

  void train(bool on) override {
    Layer::train(on);
    const nb::gil_scoped_acquire gil;
    in_python(*raised_, [&] { nb::handle(module_.get()).attr("train")(on); });
  }

  /// It keeps the weights that it was made with, as LibTorch's modules do.
  void initialise(std::uint64_t /*key*/) override {}

  Tensors forward(const Tensors& inputs, const Pass& pass) override;

 private:
  /// Registers what the module has under its names. What has several names
  /// there has the first of them here, or it would be updated as often.
  void mirror(nb::handle module, torch::nn::Module& mirrored);

  Held module_;
  std::shared_ptr<RaisedInPython> raised_;
  std::set<const c10::TensorImpl*> seen_;
};

void PythonLayer::mirror(nb::handle module, torch::nn::Module& mirrored) {
  const auto add = [&](nb::handle key, nb::handle value, bool trains) {
    if (!is_tensor(value.ptr())) return;
    const at::Tensor tensor = to_tensor(value.ptr());
    if (!seen_.insert(tensor.unsafeGetTensorImpl()).second) return;
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
    mirror(item[1], *mirrored.register_module(
                        name, std::make_shared<torch::nn::Module>(name)));
  }
}

/// What a forward gave. With the GIL.
Tensors tensors_in(nb::handle given) {
  if (is_tensor(given.ptr())) return {to_tensor(given.ptr())};
  Tensors tensors;
  if (nb::isinstance<nb::tuple>(given) || nb::isinstance<nb::list>(given))
    for (const nb::handle item : given) {
      if (!is_tensor(item.ptr())) break;
      tensors.push_back(to_tensor(item.ptr()));
    }
  if (tensors.empty() || tensors.size() != nb::len(given))
    throw UserError(
        "its forward gives a {}: it should give a tensor, or a "
        "tuple of them",
        nb::cast<std::string>(given.type().attr("__name__")));
  return tensors;
}

Tensors PythonLayer::forward(const Tensors& inputs, const Pass& pass) {
  std::vector<std::int64_t> versions;
  for (const at::Tensor& input : inputs) versions.push_back(input._version());
  const ScriptedDropouts dropouts(pass);
  Tensors outputs;
  {
    const nb::gil_scoped_acquire gil;
    outputs = in_python(*raised_, [&] {
      std::vector<nb::object> objects;
      std::vector<PyObject*> arguments;
      for (const at::Tensor& input : inputs)
        arguments.push_back(objects.emplace_back(as_object(input)).ptr());
      PyObject* const given = PyObject_Vectorcall(
          module_.get(), arguments.data(), arguments.size(), nullptr);
      if (given == nullptr) throw nb::python_error();
      return tensors_in(nb::steal(given));
    });
  }
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i]._version() != versions[i])
      throw UserError(
          "its forward writes its input in place, which may be what a "
          "neighbour sent: give its first module inplace=False");
  return outputs;
}

}  // namespace

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

std::vector<LayerFactory> layer_factories(
    const nb::list& functions, const std::shared_ptr<RaisedInPython>& raised) {
  std::vector<LayerFactory> factories;
  for (const nb::handle function : functions)
    factories.emplace_back([make = held(nb::borrow(function)), raised] {
      const nb::gil_scoped_acquire gil;
      return in_python(*raised, [&]() -> std::shared_ptr<Layer> {
        return std::make_shared<PythonLayer>(nb::handle(make.get())(), raised);
      });
    });
  return factories;
}

}  // namespace sluice::python
