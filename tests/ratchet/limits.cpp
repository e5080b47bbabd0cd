#include "tests/ratchet/limits.h"

namespace sluice {

std::span<const Limits> limits() {
  // As SLUICE_RATCHET=print writes them: allocations, KiB copied, layout
  // copies, messages. Of the GPT most KiB are biases, which a product of three
  // dimensions is added to: a pass less than adding them afterwards.
  static constexpr Limits kRows[] = {
      {"quickstart", "local_loss", {194, 2729, 13, 1}, {46, 107, 1, 0}},
      {"quickstart", "backprop", {78, 2389, 7, 1}, {48, 205, 2, 1}},
      {"quickstart", "delayed_gradient", {78, 2408, 7, 1}, {48, 205, 2, 1}},
      {"quickstart", "features_replay", {114, 2585, 8, 1}, {48, 205, 2, 1}},
      {"quickstart", "fully_decoupled", {78, 2408, 7, 1}, {48, 205, 2, 1}},
      {"quickstart", "synthetic_gradient", {190, 3687, 19, 1}, {48, 205, 2, 1}},
      {"conv", "local_loss", {47, 1, 0, 1}, {77, 2577, 8, 0}},
      {"conv", "backprop", {29, 7840, 3, 1}, {80, 2577, 8, 1}},
      {"conv", "delayed_gradient", {29, 7846, 3, 1}, {80, 2577, 8, 1}},
      {"conv", "features_replay", {46, 7843, 3, 1}, {80, 2577, 8, 1}},
      {"conv", "fully_decoupled", {29, 7846, 3, 1}, {80, 2577, 8, 1}},
      {"conv", "synthetic_gradient", {114, 785, 0, 1}, {80, 2577, 8, 1}},
      {"mlp", "local_loss", {39, 129, 0, 1}, {27, 65, 0, 0}},
      {"mlp", "backprop", {21, 129, 0, 1}, {28, 65, 0, 1}},
      {"mlp", "delayed_gradient", {21, 7369, 0, 1}, {28, 65, 0, 1}},
      {"mlp", "features_replay", {25, 257, 0, 1}, {28, 65, 0, 1}},
      {"mlp", "fully_decoupled", {21, 7369, 0, 1}, {28, 65, 0, 1}},
      {"mlp", "synthetic_gradient", {69, 385, 0, 1}, {28, 65, 0, 1}},
      {"gpt", "local_loss", {172, 2339, 0, 1}, {159, 2307, 0, 0}},
      {"gpt", "backprop", {146, 2337, 0, 1}, {160, 2307, 0, 1}},
      {"gpt", "delayed_gradient", {146, 2337, 0, 1}, {160, 2307, 0, 1}},
      {"gpt", "features_replay", {180, 4641, 0, 1}, {160, 2307, 0, 1}},
      {"gpt", "fully_decoupled", {146, 2337, 0, 1}, {160, 2307, 0, 1}},
      {"gpt", "synthetic_gradient", {194, 4641, 0, 1}, {160, 2307, 0, 1}},
  };
  return kRows;
}

}  // namespace sluice
