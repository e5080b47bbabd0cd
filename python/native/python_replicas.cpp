#include "python/native/python_replicas.h"

#include <cstddef>
#include <string>
#include <utility>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include "lib/schedules/plan/peers.h"
#include "lib/tensors/tensors.h"
#include "python/native/tensors.h"
#include "python/native/written.h"

namespace sluice::python {
namespace {

namespace nb = nanobind;

nb::list list_of(const Tensors& tensors) {
  nb::list list;
  for (const at::Tensor& tensor : tensors)
    list.append(as_object(tensor.detach()));
  return list;
}

/// A method of a Made; nullptr where the policy lacks it.
Held method_of(nb::handle made, const char* name) {
  const nb::object method = made.attr(name);
  return method.is_none() ? nullptr : held(method);
}

std::string text_of_sizes(const at::Tensor& tensor) {
  return fmt::format("{} [{}]", toString(tensor.scalar_type()),
                     fmt::join(tensor.sizes(), ", "));
}

/// Copies of what a method gave, one for each tensor of the replica.
Tensors copies_like(const Tensors& mine, nb::handle given, const char* what) {
  const Tensors tensors = tensors_in(given, what);
  if (tensors.size() != mine.size())
    throw UserError("{} gives {} tensors for {} weights", what, tensors.size(),
                    mine.size());
  Tensors copies;
  for (std::size_t i = 0; i < mine.size(); ++i) {
    if (tensors[i].sizes() != mine[i].sizes() ||
        tensors[i].scalar_type() != mine[i].scalar_type())
      throw UserError("{} gives {} for weights of {}", what,
                      text_of_sizes(tensors[i]), text_of_sizes(mine[i]));
    copies.push_back(at::empty_like(mine[i]).copy_(tensors[i].detach()));
  }
  return copies;
}

/// What replicas.py makes a Site of.
nb::dict dict_of(const NamedTensors& parameters, const ReplicaSite& site) {
  nb::dict weights;
  for (const auto& [name, tensor] : parameters)
    weights[name.c_str()] = as_object(tensor.detach().clone());
  nb::dict dict;
  dict["replica"] = site.member;
  dict["replicas"] = site.members;
  dict["seed"] = site.seed;
  dict["weights"] = weights;
  return dict;
}

/// What replicas.py makes a Mixture of.
nb::dict dict_of(const Mixture& mixture) {
  nb::list published;
  for (const Tensors& tensors : mixture.published)
    published.append(list_of(tensors));
  nb::dict dict;
  dict["mean"] = list_of(mixture.mean);
  dict["published"] = published;
  dict["own"] = mixture.own;
  dict["parts"] = mixture.parts;
  dict["rate"] = mixture.rate;
  return dict;
}

/// Does something with the policy's Python, on any thread.
template <class Do>
auto ask(const Written& written, Do&& work) {
  const nb::gil_scoped_acquire gil;
  return in_policy(written, work);
}

Tensors cloned(const Tensors& tensors) {
  Tensors clones;
  for (const at::Tensor& each : tensors)
    clones.push_back(each.detach().clone());
  return clones;
}

class PythonReplicas final : public ReplicaPolicy {
 public:
  /// made: a Made. With the GIL.
  PythonReplicas(std::shared_ptr<const Written> written, nb::handle made,
                 const NamedTensors& parameters)
      : written_(std::move(written)),
        prefix_(parameters.empty() ? "" : parameters.front().first + "."),
        begin_(method_of(made, "begin")),
        offer_(method_of(made, "offer")),
        combine_(method_of(made, "combine")),
        consensus_(method_of(made, "consensus")),
        state_(method_of(made, "state")) {
    check_state();
  }

  void begin(const Tensors& weights) override {
    if (begin_)
      // Copies: a policy may keep what the weights were.
      ask(*written_,
          [&] { nb::handle(begin_.get())(list_of(cloned(weights))); });
  }

  Tensors offer(const Tensors& mine) override {
    if (!offer_) return ReplicaPolicy::offer(mine);
    return ask(*written_, [&] {
      return copies_like(mine, nb::handle(offer_.get())(list_of(mine)),
                         "its offer");
    });
  }

  Tensors combine(const Tensors& mine, Mixture mixture) override {
    return ask(*written_, [&] {
      return copies_like(
          mine, nb::handle(combine_.get())(list_of(mine), dict_of(mixture)),
          "its combine");
    });
  }

  Tensors consensus(const Tensors& mean) const override {
    if (!consensus_) return mean;
    return ask(*written_, [&] {
      return copies_like(mean, nb::handle(consensus_.get())(list_of(mean)),
                         "its consensus");
    });
  }

  NamedTensors state() const override {
    if (!state_) return {};
    return ask(*written_, [&] { return state_of_policy(); });
  }

 private:
  /// Tensors of the policy's own, under names that are the block's.
  NamedTensors state_of_policy() const {
    const nb::object given = nb::handle(state_.get())();
    if (!nb::isinstance<nb::dict>(given))
      throw UserError("its state gives a {}: it should give a dict of tensors",
                      nb::cast<std::string>(given.type().attr("__name__")));
    NamedTensors state;
    for (const auto& [name, tensor] : nb::cast<nb::dict>(given)) {
      if (!nb::isinstance<nb::str>(name) || !is_tensor(tensor.ptr()))
        throw UserError("its state has something that is no named tensor");
      state.emplace_back(prefix_ + nb::cast<std::string>(name),
                         to_tensor(tensor.ptr()).detach());
    }
    return state;
  }

  /// A checkpoint is restored into the tensors that state() gives.
  void check_state() const {
    if (!state_) return;
    const NamedTensors first = state_of_policy();
    const NamedTensors again = state_of_policy();
    for (std::size_t i = 0; i < first.size(); ++i)
      if (again.size() != first.size() ||
          again[i].second.data_ptr() != first[i].second.data_ptr())
        throw UserError(
            "its state gives other tensors each time: give those that it "
            "keeps, since a checkpoint is restored into them");
  }

  std::shared_ptr<const Written> written_;
  std::string prefix_;
  Held begin_, offer_, combine_, consensus_, state_;
};

std::shared_ptr<ReplicaPolicy> make_replicas(
    const std::shared_ptr<const Written>& written,
    const NamedTensors& parameters, const ReplicaSite& site) {
  const nb::gil_scoped_acquire gil;
  return in_policy(*written, [&]() -> std::shared_ptr<ReplicaPolicy> {
    const nb::object made =
        nb::handle(written->make.get())(dict_of(parameters, site));
    return std::make_shared<PythonReplicas>(written, made, parameters);
  });
}

Names<PeerShape> graphs() {
  Names<PeerShape> all = {{"all", PeerShape::all}};
  for (const PeerShape shape :
       {PeerShape::ring, PeerShape::torus, PeerShape::complete,
        PeerShape::exponential, PeerShape::hops})
    all.push_back({std::string(shape_name(shape)), shape});
  return all;
}

ReplicaKind configure_replicas(const std::shared_ptr<const Written>& written,
                               Fields& options) {
  ReplicaKind kind{
      .exchange = {.what = ExchangedTensors::weights, .agrees = true}};
  std::string made_by = written->made_by;
  options.key("made_by", made_by, {.text = "the Python that makes the policy"});
  options.key("every", kind.exchange.every,
              {.text = "updates between two exchanges",
               .unit = "updates",
               .min = 1,
               .max = 1e12});
  options.key("graph", kind.exchange.graph.shape, graphs(),
              {.text = "all: combine() gets the mean of all; or a graph, of "
                       "which it gets what the peers have published"});
  options.key("mix", kind.exchange.what,
              {{"before", ExchangedTensors::old_weights},
               {"after", ExchangedTensors::weights}},
              {.text = "after: weights of after an update are exchanged, and "
                       "combine() gives the new ones; before: those of before "
                       "it, and combine() gives what is added to them after "
                       "it"});
  kind.make = [written](const NamedTensors& parameters,
                        const ReplicaSite& site) -> ReplicaRules {
    return {.policy = make_replicas(written, parameters, site)};
  };
  return kind;
}

}  // namespace

std::vector<ReplicaPolicyRow> replica_rows(
    const nb::list& policies, const std::shared_ptr<RaisedInPython>& raised) {
  std::vector<ReplicaPolicyRow> rows;
  for (const nb::handle policy : policies) {
    const auto written = written_in(policy, "replica policy", raised);
    // The copies of the row share `written`, so the name outlives them.
    rows.push_back({written->name, "a replica policy written in Python",
                    [written](Fields& options) {
                      return configure_replicas(written, options);
                    }});
  }
  return rows;
}

}  // namespace sluice::python
