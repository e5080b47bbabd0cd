#include "experiments/config/presets/presets.h"

namespace sluice {

std::span<const PresetRow> training_presets() {
  static constexpr PresetRow kRows[] = {
      {"mono_forward",
       "each layer learns by a projection of its activations to the classes",
       {.source = "Mono-Forward: Gong, Li, Abdulla 2025, arXiv:2501.09238. "
                  "Each layer a block of its own; with head.pool maps are "
                  "averaged before the projection. Evaluations go by the last "
                  "layer, not by the goodness of all",
        .kept = "the graph of one batch, in the block and in its projection",
        .staleness = "none: each block applies the gradient of its own loss at "
                     "once, and nothing comes down",
        .config = "[boundary]\n"
                  "policy = \"local_loss\"\n"
                  "head = {name = \"mono_forward\"}\n",
        .configs = "quickstart"}},
      {"auto_assist",
       "samples whose loss an assistant expects to be low are skipped",
       {.source =
            "AutoAssist: Zhang et al., \"AutoAssist: A Framework to "
            "Accelerate Training of Deep Neural Networks\", NeurIPS 2019. "
            "acceptance is its p0; the assistant, a logistic regression on "
            "input and class, draws ahead, and learns from the losses that "
            "have come (schedule = \"free\"), or in lockstep assist.lag turns "
            "later. For boundaries whose gradients come from above",
        .kept =
            "beside what the policy keeps: the assistant, a number for each "
            "element of an input and each class; and the samples' losses, "
            "which come down with the gradients",
        .staleness =
            "that of the policy. What is skipped costs its vote, and neither "
            "forward nor backward; an epoch is as many samples trained on as "
            "the split has. acceptance = 1 has the bits without an assistant",
        .config = "[data]\n"
                  "assist = {acceptance = 0.3, learning_rate = 0.1}\n\n"
                  "[boundary]\n"
                  "policy = \"backprop\"\n",
        .configs = "quickstart"}},
  };
  return kRows;
}

}  // namespace sluice
