#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace sluice {

/// Base of everything that Sluice throws on purpose.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The user can mend it: a config key, a file, the shape of the data. The text
/// says what was found, what is allowed and where.
class UserError : public Error {
 public:
  template <class... Args>
  explicit UserError(fmt::format_string<Args...> text, Args&&... args)
      : Error(fmt::format(text, std::forward<Args>(args)...)) {}
};

/// A peer or the network failed. The link is dead; the worker stops and the
/// launcher says which block it was and why.
class LinkError : public Error {
 public:
  template <class... Args>
  explicit LinkError(fmt::format_string<Args...> text, Args&&... args)
      : Error(fmt::format(text, std::forward<Args>(args)...)) {}
};

/// The peer went first. That only follows from another failure, which is the
/// one to report.
class PeerGoneError : public LinkError {
 public:
  using LinkError::LinkError;
};

/// A bug in Sluice, or in code that was plugged into it.
class InternalError : public Error {
 public:
  template <class... Args>
  explicit InternalError(fmt::format_string<Args...> text, Args&&... args)
      : Error(fmt::format(text, std::forward<Args>(args)...)) {}
};

}  // namespace sluice

/// Throws InternalError with a fmt message when `condition` does not hold.
#define SLUICE_CHECK(condition, ...)                                    \
  do {                                                                  \
    if (!(condition))                                                   \
      throw ::sluice::InternalError("check failed: {}: {}", #condition, \
                                    ::fmt::format(__VA_ARGS__));        \
  } while (false)
