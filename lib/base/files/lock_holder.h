#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace sluice {

/// The process that holds a folder, as its lock file says: enough to tell on
/// any host whether that process can still be there.
struct LockHolder {
  std::string host = {};
  std::string boot = {};  ///< the kernel's boot_id: a machine since its start
  std::int64_t pid = 0;
  std::int64_t process_start = 0;  ///< in ticks after the boot: pids come again
  double since = 0;                ///< seconds since 1970
  double heartbeat = 0;            ///< seconds since 1970: last sign of life

  bool operator==(const LockHolder&) const = default;
};

/// A holder that hasn't been heard for so long is taken for dead.
constexpr double kHeartbeatIsOld = 60;  // s

LockHolder this_holder();

/// The holder as text for the lock file; its length doesn't depend on the
/// heartbeat.
std::string to_text(const LockHolder& holder);
/// Reads the holder; nothing where the text is not one that to_text() writes.
std::optional<LockHolder> parse_lock_holder(const std::string& text);

/// What the kernel of this host has called itself since it was started.
std::string boot_id();

/// Whether both are the same process, whatever the times of their heartbeats.
bool is_same_process(const LockHolder& left, const LockHolder& right);
/// Whether it ran on the machine that this process runs on, and since that was
/// started.
bool is_of_this_boot(const LockHolder& holder);
/// Whether its process is there: meaningful when it is of this boot.
bool is_running(const LockHolder& holder);
/// Whether it may live, as far as one can see without a lock.
bool may_live(const LockHolder& holder);

/// "process 1234 on host H, since 2026-11-22 21:37:59 UTC"
std::string describe(const LockHolder& holder);

}  // namespace sluice
