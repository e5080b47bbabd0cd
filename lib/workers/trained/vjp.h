#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/boundaries/boundary.h"
#include "lib/schedules/plan/plan.h"
#include "lib/tensors/split_backward.h"
#include "lib/tensors/tensors.h"
#include "lib/weights/weight_view.h"

namespace sluice {

/// A gradient at a block's outputs that is taken back through it by itself.
struct Pull {
  Tensors signal;
  bool applied = true;                 ///< to the block's weights
  int leaving = GradientPart::kStays;  ///< GradientPart's
};

/// Which gradients at the outputs are taken back, each by itself: usually the
/// one that the lower end answers, which is put into `signal`. `arrived`: from
/// above, by way; the end trains so many `parameters`. Throws InternalError
/// where the end, which may be a user's plug-in, answers other shapes.
std::vector<Pull> pulls_of(const BlockPlan& plan, const BatchContext& context,
                           const std::vector<Tensors>& arrived, Lower& lower,
                           std::size_t parameters, Signal& signal);

/// Adds a part of the gradient at the outputs; parts that are used alike become
/// one pull.
void add_part(const GradientPart& part, const Tensors& gradients,
              std::vector<Pull>& pulls);

/// Gradients that vjp() has taken.
struct PullResult {
  Tensors parameters;           ///< in the order of the block's
  std::vector<Tensors> inputs;  ///< by GradientPart::leaving
};

/// The end's own part, checked as pulls_of() does.
Signal signal_of(const BatchContext& context, Lower& lower,
                 std::size_t parameters);

/// Computes a vector-Jacobian product for each pull. `ways`: how many gradients
/// leave. Frees the graph unless it is to be kept for further ones.
PullResult vjp(const Graph& graph, const Tensors& inputs, int ways,
               const std::vector<Pull>& pulls, bool keep_graph = false);

/// First half of a vjp in two: the gradients at the inputs, by
/// GradientPart::leaving, which can go down before those of the parameters are
/// computed. `halves` are for the second one, by pull.
std::vector<Tensors> vjp_inputs(const Graph& graph, const Tensors& inputs,
                                int ways, const std::vector<Pull>& pulls,
                                std::vector<SplitBackward>& halves);
/// Gradients of the parameters; frees the graph.
Tensors vjp_weights(const std::vector<Pull>& pulls,
                    std::vector<SplitBackward>& halves);

/// Multiplied by a factor, in new tensors, unless that is 1; undefined ones
/// stay so.
Tensors weighted(Tensors gradients, double factor);

/// Adds term by term; undefined tensors are nothing, and `sums` may be empty.
void add_to(Tensors& sums, const Tensors& terms);
Tensors sum_of(const std::vector<Tensors>& all);

}  // namespace sluice
