#include "lib/base/files/lock_holder.h"

#include <array>
#include <chrono>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string_view>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

namespace sluice {
namespace {

std::string host_name() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return host.data();
}

/// Field 22 of its stat, in ticks after the boot; 0: there is none, or it has
/// ended and only waits for its parent.
std::int64_t start_of(std::int64_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');
  if (name_end == line.npos) return 0;
  std::istringstream fields(line.substr(name_end + 1));
  std::string state;
  fields >> state;
  if (state == "Z" || state == "X") return 0;
  constexpr int kBetween = 18;  // fields 4 to 21
  std::string skipped;
  for (int i = 0; i < kBetween; ++i) fields >> skipped;
  std::int64_t start = 0;
  fields >> start;
  return start;
}

double now() {
  return std::chrono::duration<double>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

LockHolder this_holder() {
  const double time = now();
  return {.host = host_name(),
          .boot = boot_id(),
          .pid = ::getpid(),
          .process_start = start_of(::getpid()),
          .since = time,
          .heartbeat = time};
}

std::string to_text(const LockHolder& holder) {
  return fmt::format(
      "# The sluice process that works in this folder.\nhost = {}\nboot = {}\n"
      "pid = {}\nprocess_start = {}\nsince = {:.0f}\nheartbeat = {:.0f}\n",
      holder.host, holder.boot, holder.pid, holder.process_start, holder.since,
      holder.heartbeat);
}

std::optional<LockHolder> parse_lock_holder(const std::string& text) {
  LockHolder holder;
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  const auto read = [&](std::string_view key, auto& value) {
    if (!std::getline(lines, line) || !line.starts_with(key)) return false;
    std::istringstream rest(line.substr(key.size()));
    std::string equals;
    rest >> equals;
    if (equals != "=") return false;
    rest >> value;
    return true;  // a host or boot may have no name
  };
  if (line.starts_with("#") && read("host", holder.host) &&
      read("boot", holder.boot) && read("pid", holder.pid) &&
      read("process_start", holder.process_start) &&
      read("since", holder.since) && read("heartbeat", holder.heartbeat) &&
      holder.pid > 0)
    return holder;
  return std::nullopt;
}

bool is_same_process(const LockHolder& left, const LockHolder& right) {
  return left.host == right.host && left.boot == right.boot &&
         left.pid == right.pid && left.process_start == right.process_start;
}

bool is_of_this_boot(const LockHolder& holder) {
  const std::string boot = boot_id();
  return boot.empty() ? holder.host == host_name() : holder.boot == boot;
}

bool is_running(const LockHolder& holder) {
  const std::int64_t start = start_of(holder.pid);
  return start > 0 && start == holder.process_start;
}

bool may_live(const LockHolder& holder) {
  if (is_of_this_boot(holder)) return is_running(holder);
  if (holder.host == host_name()) return false;  // it was started anew
  return now() - holder.heartbeat < kHeartbeatIsOld;
}

std::string describe(const LockHolder& holder) {
  const auto since = static_cast<std::time_t>(holder.since);
  return fmt::format("process {} on host {}, since {:%Y-%m-%d %H:%M:%S} UTC",
                     holder.pid, holder.host, fmt::gmtime(since));
}

}  // namespace sluice
