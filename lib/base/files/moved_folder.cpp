#include "lib/base/files/moved_folder.h"

#include <chrono>
#include <filesystem>
#include <optional>
#include <system_error>
#include <thread>

#include "lib/base/error.h"

namespace sluice {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks(10);
constexpr int kMostLooks = 200;

/// Place of the folder, through links; nothing where there is none.
std::optional<std::string> place_of(const std::string& folder) {
  std::error_code error;
  const std::string place = std::filesystem::canonical(folder, error).string();
  return error ? std::nullopt : std::optional(place);
}

std::string wait_for(const std::string& folder) {
  for (int looks = 0; looks < kMostLooks; ++looks) {
    if (const auto place = place_of(folder)) return *place;
    std::this_thread::sleep_for(kBetweenLooks);
  }
  throw UserError(
      "{}: isn't there any more, so that nothing can be saved: it was moved or "
      "removed while the run works there",
      folder);
}

}  // namespace

void work_while_moved(const std::string& folder,
                      const std::function<void()>& work) {
  while (true) {
    const std::string before = wait_for(folder);
    try {
      return work();
    } catch (const UserError&) {
      if (place_of(folder) == before) throw;
    } catch (const std::filesystem::filesystem_error&) {
      if (place_of(folder) == before) throw;
    }
  }
}

}  // namespace sluice
