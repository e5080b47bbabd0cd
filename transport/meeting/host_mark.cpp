#include "transport/meeting/host_mark.h"

#include <cstddef>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/base/files/lock_holder.h"

namespace sluice {
namespace {

/// A mark must fit among the addresses of a hello.
constexpr std::size_t kMostApart = 64;

/// Containers of one host have a kernel in common, but no folder for sockets.
std::string mount_namespace() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/ns/mnt", ignored).string();
}

}  // namespace

std::string host_mark(const std::string& apart) {
  if (apart.size() > kMostApart)
    throw UserError("the mark of a host has {} bytes; at most {} are allowed",
                    apart.size(), kMostApart);
  const std::string boot = boot_id();
  const std::string mounts = mount_namespace();
  // No mark where the kernel tells neither: two hosts would have the same one.
  if (boot.empty() || mounts.empty()) return "";
  return fmt::format("{} {} {} {}", boot, mounts, ::geteuid(), apart);
}

}  // namespace sluice
