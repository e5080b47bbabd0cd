// The extension module sluice._native, which python/sluice/network.py wraps.
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "lib/memory/allocator.h"
#include "python/native/network.h"
#include "python/native/objects.h"

namespace nb = nanobind;

namespace sluice::python {
namespace {

nb::dict dict_of(const NamedTensors& tensors) {
  nb::dict dict;
  for (const auto& [name, tensor] : tensors)
    dict[name.c_str()] = as_object(tensor);
  return dict;
}

nb::dict dict_of(const Record& record) {
  nb::dict dict;
  for (const auto& [name, value] : record.values)
    dict[name.c_str()] =
        std::visit([](const auto& each) { return nb::cast(each); }, value);
  return dict;
}

/// A turn, which its network outlives.
struct Turn {
  Network& network;
  Step step;
};

/// The fields of the dict that network.py makes.
Said said_in(const nb::dict& options) {
  const auto text = [&](const char* name) {
    return nb::cast<std::string>(options[name]);
  };
  const auto texts = [&](const char* name) {
    return nb::cast<std::vector<std::string>>(options[name]);
  };
  return {.layers = nb::cast<nb::list>(options["layers"]),
          .policies = nb::cast<nb::list>(options["policies"]),
          .replica_policies = nb::cast<nb::list>(options["replica_policies"]),
          .example = nb::object(options["example"]),
          .cuts = nb::cast<std::vector<std::int64_t>>(options["cuts"]),
          .boundaries = texts("boundaries"),
          .optimizer = text("optimizer"),
          .settings = text("settings"),
          .overrides = texts("overrides"),
          .run = {.folder = text("folder"),
                  .overwrite = nb::cast<bool>(options["overwrite"]),
                  .resume = nb::cast<bool>(options["resume"])},
          .worker = texts("worker")};
}

/// tensor_of(), for functions that Python calls.
at::Tensor argument(nb::handle object, const char* name) {
  try {
    return tensor_of(object, name);
  } catch (const UserError& error) {
    raise_error(error, nb::none());
  }
}

void define_turn(nb::module_& module) {
  nb::class_<Turn>(module, "Turn")
      .def_prop_ro("turn", [](const Turn& it) { return it.step.turn(); })
      .def("record", [](const Turn& it, int block, int replica) {
        return dict_of(it.network.call(
            [&](NetworkCore&) { return it.step.record(block, replica); }));
      });
  nb::class_<Evaluation>(module, "Evaluation")
      .def_prop_ro("loss", &Evaluation::loss)
      .def_prop_ro("accuracy", &Evaluation::accuracy)
      .def_prop_ro("labels", &Evaluation::labels)
      .def("__repr__", [](const Evaluation& it) {
        const std::string accuracy =
            it.has_accuracy()
                ? fmt::format("accuracy {:.2f} %, ", 100 * it.accuracy())
                : "";
        return fmt::format("<Evaluation: loss {:.4f}, {}{} labels>", it.loss(),
                           accuracy, it.labels());
      });
}

void define_network(nb::module_& module) {
  nb::class_<Network>(module, "Network")
      .def("__init__",
           [](Network* it, const nb::dict& options) {
             new (it) Network(said_in(options));
           })
      .def(
          "step",
          [](Network& it, nb::handle inputs, nb::handle labels) {
            const at::Tensor x = argument(inputs, "inputs");
            const at::Tensor y = argument(labels, "labels");
            return Turn{it, it.call([&](NetworkCore& core) {
                          return core.step(x, y);
                        })};
          },
          nb::keep_alive<0, 1>())
      .def(
          "drain",
          [](Network& it) { it.call([](NetworkCore& core) { core.drain(); }); })
      .def("forward",
           [](Network& it, nb::handle inputs) {
             const at::Tensor x = argument(inputs, "inputs");
             return as_object(
                 it.call([&](NetworkCore& core) { return core.forward(x); }));
           })
      .def("evaluate",
           [](Network& it, nb::handle inputs, nb::handle labels) {
             const at::Tensor x = argument(inputs, "inputs");
             const at::Tensor y = argument(labels, "labels");
             return it.call(
                 [&](NetworkCore& core) { return core.evaluate(x, y); });
           })
      .def(
          "record",
          [](Network& it, const Evaluation& test,
             const Evaluation* validation) {
            it.call([&](NetworkCore& core) { core.record(test, validation); });
          },
          nb::arg("test"), nb::arg("validation").none())
      .def("weights",
           [](Network& it) {
             return dict_of(
                 it.call([](NetworkCore& core) { return core.weights(); }));
           })
      .def("save",
           [](Network& it, const std::string& folder) {
             return it.call(
                 [&](NetworkCore& core) { return core.save(folder); });
           })
      .def("load",
           [](Network& it, const std::string& path) {
             it.call([&](NetworkCore& core) { core.load(path); });
           })
      .def("finish",
           [](Network& it) {
             it.call([](NetworkCore& core) { core.finish(); });
           })
      .def("close", &Network::close)
      .def_prop_ro(
          "turns",
          [](Network& it) {
            return it.call([](NetworkCore& core) { return core.turns(); });
          })
      .def_prop_ro(
          "blocks",
          [](Network& it) {
            return it.call([](NetworkCore& core) { return core.blocks(); });
          })
      .def_prop_ro("replicas", [](Network& it) {
        return it.call([](NetworkCore& core) { return core.replicas(); });
      });
}

}  // namespace
}  // namespace sluice::python

// NOLINTNEXTLINE
NB_MODULE(_native, module) {
  // torch's types, and what the functions below expect to be loaded.
  nb::module_::import_("torch");
  nb::set_leak_warnings(false);  // of networks that live as long as Python
  sluice::install_allocator();
  sluice::python::define_turn(module);
  sluice::python::define_network(module);
  module.def("work", [](const nb::dict& options) {
    return sluice::python::work(sluice::python::said_in(options));
  });
}
