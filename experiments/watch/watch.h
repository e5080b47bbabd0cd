#pragma once

#include <string>

namespace sluice {

/// The page of a run that `sluice watch` shows, at most `width` columns wide:
/// `status` is what its status.json holds, `now` seconds since 1970. The block
/// that waits least holds the others up, and is marked. Throws UserError for a
/// text that is no status.
std::string status_page(const std::string& status, double now,
                        std::size_t width = 80);

/// Whether the run is over.
bool is_over(const std::string& status);

/// Shows the run in the folder until it is over: on a terminal a page that is
/// written over every second, elsewhere a page every ten. With `once` only the
/// page of now. Throws UserError when the folder has no status.
void watch(const std::string& folder, bool once);

}  // namespace sluice
