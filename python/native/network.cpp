#include "python/native/network.h"

#include <optional>

#include <nanobind/stl/string.h>

#include "experiments/api/network_worker.h"
#include "experiments/config/files/overrides.h"
#include "lib/base/error.h"
#include "lib/base/printable.h"
#include "lib/base/process_start.h"
#include "lib/engines/control.h"
#include "python/native/python_layer.h"
#include "python/native/python_policy.h"
#include "python/native/python_replicas.h"
#include "python/native/tensors.h"

namespace sluice::python {
namespace {

namespace nb = nanobind;

NetworkOptions options_of(const Said& said,
                          const std::shared_ptr<RaisedInPython>& raised) {
  return {.layers = layer_factories(said.layers, raised),
          .example = tensor_of(said.example, "example"),
          .cuts = said.cuts,
          .boundaries = {said.boundaries.begin(), said.boundaries.end()},
          .optimizer = said.optimizer,
          .settings = said.settings,
          .policies = policy_rows(said.policies, raised),
          .replica_policies = replica_rows(said.replica_policies, raised),
          .run = said.run};
}

}  // namespace

Network::Network(const Said& said) {
  NetworkOptions options;
  try {
    options = options_of(said, raised_);
  } catch (const UserError& error) {
    raise(error);
  }
  guarded([&] {
    ConfigNode config = config_of(options);
    for (const std::string& text : said.overrides) apply_override(config, text);
    WorkerProgram program;
    if (!said.worker.empty()) program = {said.worker.front(), said.worker};
    core_ = std::make_unique<NetworkCore>(options, config, std::move(program));
  });
}

Network::~Network() {
  const nb::gil_scoped_release others;
  core_.reset();
}

void Network::close() {
  guarded([&] { core_.reset(); });
}

void Network::raise(const std::exception& error) {
  // What the backward of a torch.autograd.Function has raised here.
  if (PyErr_Occurred() != nullptr) raised_->keep(nb::python_error());
  raise_error(error, raised_->take());
}

at::Tensor tensor_of(nb::handle object, const char* name) {
  if (!is_tensor(object.ptr()))
    throw UserError("{} is a {}: it must be a torch.Tensor", name,
                    Py_TYPE(object.ptr())->tp_name);
  return to_tensor(object.ptr());
}

void raise_error(const std::exception& error, const nb::object& cause) {
  const bool can_mend = dynamic_cast<const UserError*>(&error) != nullptr;
  const nb::object raised =
      nb::module_::import_("sluice.errors")
          .attr("SluiceError")(printable(text_of(error)), can_mend ? 2 : 1);
  if (!cause.is_none()) raised.attr("__cause__") = cause;
  PyErr_SetObject(raised.type().ptr(), raised.ptr());
  throw nb::python_error();
}

int work(const Said& said) {
  const auto raised = std::make_shared<RaisedInPython>();
  try {
    const std::optional<WorkerArguments> arguments = take_worker_arguments();
    if (!arguments)
      throw UserError("this is started by a sluice.Network, for its blocks");
    const NetworkOptions options = options_of(said, raised);
    const nb::gil_scoped_release others;
    begin_process();
    return work_for_network(options, *arguments);
  } catch (const std::exception& error) {
    raise_error(error, raised->take());
  }
}

}  // namespace sluice::python
