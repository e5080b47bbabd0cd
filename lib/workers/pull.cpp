#include "lib/workers/pull.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "lib/tensors/gradients.h"

namespace sluice {

std::string gradient_name(std::size_t way) {
  return way == 0 ? "gradient" : fmt::format("gradient{}", way);
}

void add_to(Tensors& sums, const Tensors& terms) {
  sums.resize(terms.size());
  for (std::size_t i = 0; i < terms.size(); ++i)
    if (terms[i].defined())
      sums[i] = sums[i].defined() ? sums[i] + terms[i] : terms[i];
}

Tensors sum_of(const std::vector<Tensors>& all) {
  Tensors sums;
  for (const Tensors& one : all) add_to(sums, one);
  return sums;
}

Pulled pull_back(const Graph& graph, const Tensors& inputs, int ways,
                 const std::vector<Pull>& pulls, Half half) {
  Pulled pulled{Tensors(graph.parameters.size()),
                std::vector<Tensors>(static_cast<std::size_t>(ways))};
  for (const Pull& one : pulls) {
    const bool is_applied = one.applied && half != Half::inputs;
    const bool leaves =
        one.leaving != GradientPart::kStays && half != Half::weights;
    if (!is_applied && !leaves) continue;
    Tensors targets;
    if (is_applied) targets = graph.parameters;
    const auto parameters = std::ssize(targets);
    if (leaves) targets.insert(targets.end(), inputs.begin(), inputs.end());
    const bool keeps_graph = half == Half::inputs || &one != &pulls.back();
    const Tensors gradients =
        gradients_at(targets, graph.outputs, one.signal, keeps_graph);
    if (is_applied)
      add_to(pulled.parameters,
             {gradients.begin(), gradients.begin() + parameters});
    if (leaves)
      add_to(pulled.inputs[static_cast<std::size_t>(one.leaving)],
             {gradients.begin() + parameters, gradients.end()});
  }
  return pulled;
}

}  // namespace sluice
