#include "tests/simcuda/programs/turn_costs.h"

namespace sluice {

std::span<const TurnCostLimit> turn_cost_limits() {
  // As SLUICE_RATCHET=print writes them: launches, waits of the host, copies,
  // events. By IPC an event of each end orders a tensor. Through the host one
  // does that is small (kSmallCopy), as those of this GPT are: when it leaves.
  // Larger ones take three: behind the copy that arrives; before the one that
  // leaves, which so runs beside what is computed; and behind that.
  // With graphs a turn copies operands into their memory and results out of it,
  // and replays three: forward, backward, update. Masks are drawn beside them.
  static constexpr TurnCostLimit kRows[] = {
      {"resnet32", "memory", "plain", {118, 0, 1, 0}},
      {"resnet32", "memory", "adam", {119, 0, 1, 0}},
      {"resnet32", "memory", "clipping", {129, 0, 1, 0}},
      {"resnet32", "socket", "plain", {118, 0, 5, 4}},
      {"resnet32", "socket", "adam", {119, 0, 5, 4}},
      {"resnet32", "socket", "clipping", {129, 0, 5, 4}},
      {"resnet32", "shared", "plain", {118, 0, 5, 4}},
      {"resnet32", "pinned", "plain", {118, 0, 5, 4}},
      {"resnet32", "ipc", "adam", {119, 0, 5, 4}},
      {"gpt", "memory", "plain", {117, 0, 1, 0}},
      {"gpt", "memory", "adam", {118, 0, 1, 0}},
      {"gpt", "memory", "clipping", {128, 0, 1, 0}},
      {"gpt", "memory", "dropout", {121, 0, 1, 0}},
      {"gpt", "socket", "plain", {117, 0, 5, 2}},
      {"gpt", "socket", "adam", {118, 0, 5, 2}},
      {"gpt", "socket", "clipping", {128, 0, 5, 2}},
      {"gpt", "socket", "dropout", {121, 0, 5, 2}},
      {"gpt", "ipc", "adam", {118, 0, 5, 4}},
      {"resnet32", "memory", "plaingraphs", {8, 0, 1, 0}},
      {"resnet32", "memory", "adamgraphs", {8, 0, 1, 0}},
      {"resnet32", "memory", "clippinggraphs", {8, 0, 1, 0}},
      {"resnet32", "socket", "plaingraphs", {8, 0, 5, 4}},
      {"resnet32", "ipc", "adamgraphs", {8, 0, 5, 4}},
      {"gpt", "memory", "plaingraphs", {8, 0, 1, 0}},
      {"gpt", "memory", "dropoutgraphs", {14, 0, 1, 0}},
  };
  return kRows;
}

}  // namespace sluice
