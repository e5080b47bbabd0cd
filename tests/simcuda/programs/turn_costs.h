#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sluice {

/// What a turn of one block costs on a GPU beside its arithmetic, in steady
/// state.
struct TurnCosts {
  std::int64_t launches = 0;  ///< of operations
  /// Of the host, for the GPU: of the thread that computes, but of a whole
  /// process of CUDA IPC.
  std::int64_t waits = 0;
  std::int64_t copies = 0;  ///< between host and GPU, and for CUDA IPC
  /// That are recorded, but for those of the clock: a sample (GpuClock), which
  /// moves nothing.
  std::int64_t events = 0;
};
/// "{1, 2, 3, 4}"
std::string to_text(const TurnCosts& costs);

/// Of the inner one of three blocks.
struct TurnCostLimit {
  std::string_view net;  ///< of nets()
  std::string_view way;  ///< "memory", "socket", "shared", "pinned", "ipc"
  /// "plain", "adam", "clipping", "dropout"; and with "graphs" behind it.
  std::string_view kind;
  TurnCosts most;
};
std::span<const TurnCostLimit> turn_cost_limits();

/// The config of that net and kind; a text is in `text`, and for `way` "ipc" it
/// is of a run over shared memory.
std::string turn_costs_config(std::string_view net, std::string_view kind,
                              const std::string& text);

/// How the blocks of one process hand each other tensors: in memory, or as if
/// they were in three, through the host: over sockets, or over shared memory
/// whose slots are pinned, or not.
enum class WayInProcess { memory, socket, shared, pinned };
TurnCosts costs_in_process(const std::string& config, WayInProcess way);
/// Bytes of messages that the host copies into shared memory and out of it, in
/// a turn of all blocks.
std::int64_t bytes_copied_by_host(const std::string& config, WayInProcess way);
/// Of the program in processes over shared memory, in the folder.
TurnCosts costs_by_ipc(const std::string& config, const std::string& folder);

}  // namespace sluice
