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

/// Status with "died" for a run that says it is running, but whose folder no
/// process holds; else the given one.
std::string as_it_is(const std::string& status, const std::string& folder,
                     double now);

/// Shows the run in the folder until it is over, or its process is gone: on a
/// terminal a page that is written over every second, elsewhere a page every
/// ten. With `once` only the page of now. Throws UserError when the folder has
/// no status.
void watch(const std::string& folder, bool once);

}  // namespace sluice
