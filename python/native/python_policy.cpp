#include "python/native/python_policy.h"

#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "lib/boundaries/policies/module_tensors.h"
#include "lib/boundaries/policies/plug_ins.h"
#include "lib/tensors/gradients.h"
#include "modules/chain.h"
#include "modules/script/scripted_dropout.h"
#include "python/native/written.h"

namespace sluice::python {
namespace {

namespace nb = nanobind;

/// One tensor, or a tuple of several, as layers take and return them.
nb::object as_argument(const Tensors& tensors) {
  if (tensors.size() == 1) return as_object(tensors.front());
  nb::list list;
  for (const at::Tensor& tensor : tensors) list.append(as_object(tensor));
  return nb::tuple(list);
}

std::string sizes_of(const at::Tensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.sizes(), ", "));
}

/// A policy of one method: loss(features, labels), whose gradients are the
/// signal, or gradient(features, labels[, from above]), which gives the signal.
class PythonPolicy final : public Lower {
 public:
  /// made: a Made. With the GIL.
  PythonPolicy(std::shared_ptr<const Written> written, nb::handle made,
               const BoundarySite& site)
      : written_(std::move(written)), layer_(site.layer) {
    const nb::object loss = made.attr("loss");
    has_loss_ = !loss.is_none();
    method_ = held(has_loss_ ? loss : nb::object(made.attr("gradient")));
    if (has_loss_ || !nb::cast<bool>(made.attr("from_above")))
      traits_ = {.cut = true, .from_above = false, .own = true};
    else
      traits_ = {.delay = nb::cast<std::int64_t>(made.attr("delay"))};
    const nb::object module = made.attr("module");
    if (module.is_none()) return;
    mirror(module, *mirrored_);
    attached_.emplace(*mirrored_, "heads", layer_);
    if (has_loss_) return;
    // Nothing says how a gradient of one's own would train them.
    for (auto& parameter : std::exchange(attached_->parameters, {}))
      attached_->buffers.push_back(std::move(parameter));
  }

  Traits traits() const override { return traits_; }

  Signal signal(const BatchContext& context) override {
    const Tensors given = ask(context);
    return has_loss_ ? of_loss(context, given) : of_gradient(context, given);
  }

  Tensors passed(const Tensors& /*from_above*/) override { refuse_parts(); }

  NamedTensors parameters() const override {
    return attached_ ? attached_->parameters : NamedTensors();
  }
  NamedTensors buffers() const override {
    return attached_ ? attached_->buffers : NamedTensors();
  }

 private:
  /// What comes from above comes in several parts, or none of it yet.
  [[noreturn]] void refuse_parts() const {
    throw UserError(
        "policy '{}' is written in Python, and so takes one gradient: no other "
        "boundary may have a reach or lam_target",
        written_->name);
  }
  Tensors ask(const BatchContext& context) const;
  Signal of_loss(const BatchContext& context, const Tensors& given) const;
  Signal of_gradient(const BatchContext& context, const Tensors& given) const;

  std::shared_ptr<const Written> written_;
  std::int64_t layer_;
  bool has_loss_ = false;
  Held method_;
  Traits traits_;
  std::shared_ptr<torch::nn::Module> mirrored_ =
      std::make_shared<torch::nn::Module>();
  std::optional<ModuleTensors> attached_;
};

Tensors PythonPolicy::ask(const BatchContext& context) const {
  if (traits_.from_above && context.from_above.empty()) refuse_parts();
  Pass place = context.pass;
  place.layer = layer_;
  const Pass pass = member_pass(place, "policy");
  const ScriptedDropouts dropouts(pass);
  const nb::gil_scoped_acquire gil;
  return in_policy(*written_, [&] {
    const nb::handle method = method_.get();
    const nb::object features = as_argument(context.features);
    const nb::object labels = as_object(context.labels);
    if (!traits_.from_above)
      return tensors_in(method(features, labels),
                        has_loss_ ? "its loss" : "its gradient");
    return tensors_in(method(features, labels, as_argument(context.from_above)),
                      "its gradient");
  });
}

Signal PythonPolicy::of_loss(const BatchContext& context,
                             const Tensors& given) const {
  const at::Tensor& loss = given.front();
  if (given.size() > 2 || loss.numel() != 1)
    throw UserError(
        "policy '{}': its loss has sizes {}: it should give a scalar, or the "
        "scalar and its logits",
        written_->name, sizes_of(loss));
  if (!loss.requires_grad())
    throw UserError(
        "policy '{}': its loss has no graph: it was detached, or computed "
        "under no_grad",
        written_->name);
  Tensors targets = context.features;
  for (const auto& [name, parameter] :
       attached_ ? attached_->parameters : NamedTensors())
    targets.push_back(parameter);
  const Tensors gradients = gradients_at(targets, {by_share(loss, context)});
  const auto split = gradients.begin() + std::ssize(context.features);
  Signal signal;
  signal.gradients.assign(gradients.begin(), split);
  for (const at::Tensor& gradient : signal.gradients)
    if (!gradient.defined())
      throw UserError("policy '{}': its loss doesn't depend on the features",
                      written_->name);
  signal.parameter_gradients.assign(split, gradients.end());
  signal.loss = loss.detach();
  if (given.size() == 2) signal.logits = given.back().detach();
  return signal;
}

Signal PythonPolicy::of_gradient(const BatchContext& context,
                                 const Tensors& given) const {
  const Tensors& features = context.features;
  if (given.size() != features.size())
    throw UserError(
        "policy '{}': its gradient gives {} tensors for {} features",
        written_->name, given.size(), features.size());
  Signal signal;
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i].sizes() != features[i].sizes() ||
        given[i].scalar_type() != features[i].scalar_type())
      throw UserError(
          "policy '{}': its gradient gives {} {} for features of {} {}",
          written_->name, toString(given[i].scalar_type()), sizes_of(given[i]),
          toString(features[i].scalar_type()), sizes_of(features[i]));
    signal.gradients.push_back(given[i].detach());
  }
  return signal;
}

/// What policies.py makes a Site of.
nb::dict dict_of(const BoundarySite& site) {
  nb::dict dict;
  dict["block"] = site.block;
  dict["blocks"] = site.blocks;
  dict["layer"] = site.layer;
  dict["features"] = nb::tuple(nb::cast(site.features));
  dict["classes"] = site.classes;
  dict["seed"] = site.seed;
  return dict;
}

std::unique_ptr<Lower> make_policy(
    const std::shared_ptr<const Written>& written, const BoundarySite& site) {
  const nb::gil_scoped_acquire gil;
  return in_policy(*written, [&]() -> std::unique_ptr<Lower> {
    const nb::object made = nb::handle(written->make.get())(dict_of(site));
    return std::make_unique<PythonPolicy>(written, made, site);
  });
}

/// What the config says of it: a run's folder tells by what it was trained.
MakeBoundary configure_written(const std::shared_ptr<const Written>& written,
                               Fields& options) {
  std::string made_by = written->made_by;
  options.key("made_by", made_by, {.text = "the Python that makes the policy"});
  return [written](const BoundarySite& site) {
    return make_policy(written, site);
  };
}

}  // namespace

std::shared_ptr<const Written> written_in(
    nb::handle row, std::string_view kind,
    const std::shared_ptr<RaisedInPython>& raised) {
  return std::make_shared<const Written>(
      Written{.name = nb::cast<std::string>(row[0]),
              .kind = kind,
              .made_by = nb::cast<std::string>(row[1]),
              .make = held(nb::object(row[2])),
              .raised = raised});
}

std::vector<PolicyRow> policy_rows(
    const nb::list& policies, const std::shared_ptr<RaisedInPython>& raised) {
  std::vector<PolicyRow> rows;
  for (const nb::handle policy : policies) {
    const auto written = written_in(policy, "policy", raised);
    // The copies of the row share `written`, so the name outlives them.
    rows.push_back({written->name,
                    "a policy written in Python",
                    {[written](Fields& options, const PlugIns&) {
                      return configure_written(written, options);
                    }}});
  }
  return rows;
}

}  // namespace sluice::python
