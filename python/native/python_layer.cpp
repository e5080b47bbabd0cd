#include "python/native/python_layer.h"

#include <cstdint>
#include <utility>

#include "lib/base/error.h"
#include "lib/blocks/layer.h"
#include "modules/script/scripted_dropout.h"

namespace sluice::python {
namespace {

namespace nb = nanobind;

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

  /// A module keeps the weights that it was made with, as LibTorch's do.
  void initialise(std::uint64_t /*key*/) override {}

  Tensors forward(const Tensors& inputs, const Pass& pass) override;

 private:
  Held module_;
  std::shared_ptr<RaisedInPython> raised_;
};

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
      return tensors_in(nb::steal(given), "its forward");
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
