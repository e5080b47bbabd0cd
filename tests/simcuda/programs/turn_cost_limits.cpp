#include "tests/simcuda/programs/turn_costs.h"

namespace sluice {

std::span<const TurnCostLimit> turn_cost_limits() {
  // As SLUICE_RATCHET=print writes them: launches, waits of the host, copies,
  // events.
  static constexpr TurnCostLimit kRows[] = {
      {"resnet32", "memory", "plain", {118, 0, 1, 3}},
      {"resnet32", "memory", "adam", {119, 0, 1, 3}},
      {"resnet32", "memory", "clipping", {129, 0, 1, 3}},
      {"resnet32", "socket", "plain", {118, 0, 5, 9}},
      {"resnet32", "socket", "adam", {119, 0, 5, 9}},
      {"resnet32", "socket", "clipping", {129, 0, 5, 9}},
      {"resnet32", "ipc", "adam", {119, 0, 5, 11}},
      {"gpt", "memory", "plain", {125, 0, 1, 3}},
      {"gpt", "memory", "adam", {126, 0, 1, 3}},
      {"gpt", "memory", "clipping", {136, 0, 1, 3}},
      {"gpt", "memory", "dropout", {129, 0, 1, 3}},
      {"gpt", "socket", "plain", {125, 0, 5, 9}},
      {"gpt", "socket", "adam", {126, 0, 5, 9}},
      {"gpt", "socket", "clipping", {136, 0, 5, 9}},
      {"gpt", "socket", "dropout", {129, 0, 5, 9}},
      {"gpt", "ipc", "adam", {126, 0, 5, 11}},
  };
  return kRows;
}

}  // namespace sluice
