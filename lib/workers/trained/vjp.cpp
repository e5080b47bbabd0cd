#include "lib/workers/trained/vjp.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>

#include "lib/base/error.h"
#include "lib/tensors/gpu/on_gpu.h"
#include "lib/tensors/gradients.h"

namespace sluice {

Signal signal_of(const BatchContext& context, Lower& lower,
                 std::size_t parameters) {
  const Tensors& features = context.features;
  Signal signal = lower.signal(context);
  SLUICE_CHECK(signal.gradients.size() == features.size(),
               "the policy gave {} gradients for {} features",
               signal.gradients.size(), features.size());
  SLUICE_CHECK(signal.parameter_gradients.size() == parameters,
               "the policy gave {} gradients for its {} parameters",
               signal.parameter_gradients.size(), parameters);
  for (std::size_t i = 0; i < features.size(); ++i)
    SLUICE_CHECK(signal.gradients[i].defined() &&
                     signal.gradients[i].sizes() == features[i].sizes(),
                 "the policy gave no gradient of the shape of feature {}", i);
  return signal;
}

namespace {

/// Adds the target of the synthesizers below, where the last part has one; it
/// moves no weights.
void add_target(const BlockPlan& plan, const BatchContext& context,
                const Signal& signal, Lower& lower, std::vector<Pull>& pulls) {
  const GradientPart& last = plan.gradients.parts.back();
  if (!last.target) return;
  Tensors target = signal.targets.empty() ? lower.passed(context.target_above)
                                          : signal.targets;
  SLUICE_CHECK(target.size() == context.features.size(),
               "the policy gave {} targets for {} features", target.size(),
               context.features.size());
  pulls.push_back({std::move(target), last.applied, last.leaving});
}

}  // namespace

void add_part(const GradientPart& part, const Tensors& gradients,
              std::vector<Pull>& pulls) {
  if (!part.applied && part.leaving == GradientPart::kStays) return;
  const auto same =
      std::find_if(pulls.begin(), pulls.end(), [&](const Pull& pull) {
        return pull.applied == part.applied && pull.leaving == part.leaving;
      });
  if (same == pulls.end())
    pulls.push_back({gradients, part.applied, part.leaving});
  else
    add_to(same->signal, gradients);
}

std::vector<Pull> pulls_of(const BlockPlan& plan, const BatchContext& context,
                           const std::vector<Tensors>& arrived, Lower& lower,
                           std::size_t parameters, Signal& signal) {
  const std::vector<GradientPart>& parts = plan.gradients.parts;
  std::vector<Pull> pulls;
  if (plan.gradients.are_merged()) {
    signal = signal_of(context, lower, parameters);
    pulls.push_back(
        {signal.gradients, parts.front().applied, parts.front().leaving});
    add_target(plan, context, signal, lower, pulls);
    return pulls;
  }
  auto next = arrived.begin();
  for (const GradientPart& part : parts) {
    if (part.own) signal = signal_of(context, lower, parameters);
    add_part(part, part.own ? signal.gradients : lower.passed(*next++), pulls);
  }
  return pulls;
}

Tensors weighted(Tensors gradients, double factor) {
  if (factor == 1) return gradients;
  for (at::Tensor& gradient : gradients)
    if (gradient.defined()) gradient = gradient * factor;
  return gradients;
}

void add_to(Tensors& sums, const Tensors& terms) {
  sums.resize(terms.size());
  TensorsOnGpu added;
  Tensors before;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    if (!terms[i].defined()) continue;
    if (!sums[i].defined()) {
      sums[i] = terms[i];
    } else if (terms[i].is_cpu()) {
      sums[i] = sums[i] + terms[i];
    } else {
      before.push_back(sums[i]);
      added.add(i, terms[i]);
    }
  }
  if (!before.empty()) added.put(at::_foreach_add(before, added.tensors), sums);
}

Tensors sum_of(const std::vector<Tensors>& all) {
  Tensors sums;
  for (const Tensors& one : all) add_to(sums, one);
  return sums;
}

PullResult vjp(const Graph& graph, const Tensors& inputs, int ways,
               const std::vector<Pull>& pulls, bool keep_graph) {
  PullResult pulled{Tensors(graph.parameters.size()),
                    std::vector<Tensors>(static_cast<std::size_t>(ways))};
  for (const Pull& one : pulls) {
    const bool leaves = one.leaving != GradientPart::kStays;
    Tensors targets;
    if (one.applied) targets = graph.parameters;
    const auto parameters = std::ssize(targets);
    if (leaves) targets.insert(targets.end(), inputs.begin(), inputs.end());
    const Tensors gradients = gradients_at(targets, graph.outputs, one.signal,
                                           keep_graph || &one != &pulls.back());
    if (one.applied)
      add_to(pulled.parameters,
             {gradients.begin(), gradients.begin() + parameters});
    if (leaves)
      add_to(pulled.inputs[static_cast<std::size_t>(one.leaving)],
             {gradients.begin() + parameters, gradients.end()});
  }
  return pulled;
}

std::vector<Tensors> vjp_inputs(const Graph& graph, const Tensors& inputs,
                                int ways, const std::vector<Pull>& pulls,
                                std::vector<SplitBackward>& halves) {
  std::vector<Tensors> pulled(static_cast<std::size_t>(ways));
  for (const Pull& one : pulls) {
    const bool leaves = one.leaving != GradientPart::kStays;
    halves.emplace_back(graph.outputs, leaves ? inputs : Tensors(),
                        one.applied ? graph.parameters : Tensors());
    const Tensors gradients = halves.back().at_inputs(one.signal);
    if (leaves)
      add_to(pulled[static_cast<std::size_t>(one.leaving)], gradients);
  }
  return pulled;
}

Tensors vjp_weights(const std::vector<Pull>& pulls,
                    std::vector<SplitBackward>& halves) {
  Tensors pulled;
  for (std::size_t i = 0; i < pulls.size(); ++i)
    if (pulls[i].applied)
      add_to(pulled, halves[i].at_parameters(i + 1 < pulls.size()));
  return pulled;
}

}  // namespace sluice
