#pragma once

#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace sluice {

// Texts for the user of a run. None of them ends the run: its terminal may be
// closed, the reader of its output gone, the disk of its log full.

/// Writes to stdout, at once. Where the reader is gone the rest is dropped.
void put_text(std::string_view text) noexcept;
/// Writes to stderr.
void say_text(std::string_view text) noexcept;

template <class... Args>
void put(fmt::format_string<Args...> text, Args&&... args) {
  put_text(fmt::format(text, std::forward<Args>(args)...));
}

template <class... Args>
void say(fmt::format_string<Args...> text, Args&&... args) {
  say_text(fmt::format(text, std::forward<Args>(args)...));
}

/// Notes that a write to stdout has failed, by its errno.
void note_output_failure(int reason) noexcept;

/// Writes what C and C++ still hold for stdout. Throws Error when that, or
/// anything before it, could not be written; a reader that is gone is no error.
void finish_output();

}  // namespace sluice
