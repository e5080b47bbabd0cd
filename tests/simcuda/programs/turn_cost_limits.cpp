#include "tests/simcuda/programs/turn_costs.h"

namespace sluice {

std::span<const TurnCostLimit> turn_cost_limits() {
  // As SLUICE_RATCHET=print writes them: launches, waits of the host, copies,
  // events.
  static constexpr TurnCostLimit kRows[] = {
      {"resnet32", "memory", "plain", {400, 0, 1, 4}},
      {"resnet32", "memory", "adam", {500, 0, 1, 4}},
      {"resnet32", "memory", "clipping", {700, 0, 1, 4}},
      {"resnet32", "socket", "plain", {400, 0, 5, 10}},
      {"resnet32", "socket", "adam", {500, 0, 5, 10}},
      {"resnet32", "socket", "clipping", {700, 0, 5, 10}},
      {"resnet32", "ipc", "adam", {500, 0, 4, 21}},
      {"gpt", "memory", "plain", {400, 0, 1, 4}},
      {"gpt", "memory", "adam", {450, 0, 1, 4}},
      {"gpt", "memory", "clipping", {500, 0, 1, 4}},
      {"gpt", "memory", "dropout", {450, 0, 1, 4}},
      {"gpt", "socket", "plain", {400, 0, 5, 10}},
      {"gpt", "socket", "adam", {450, 0, 5, 10}},
      {"gpt", "socket", "clipping", {500, 0, 5, 10}},
      {"gpt", "socket", "dropout", {450, 0, 5, 10}},
      {"gpt", "ipc", "adam", {450, 0, 4, 21}},
  };
  return kRows;
}

}  // namespace sluice
