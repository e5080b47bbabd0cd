#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <nanobind/nanobind.h>

#include "lib/base/error.h"
#include "python/native/objects.h"

namespace sluice::python {

/// A policy written in Python, which a config names.
struct Written {
  std::string name = {};
  std::string_view kind = "policy";  ///< for errors
  std::string made_by = {};          ///< the config's text on its source
  Held make = nullptr;               ///< of a site, a dict
  std::shared_ptr<RaisedInPython> raised = nullptr;
};

/// The policy of a tuple (name, made_by, make). With the GIL.
std::shared_ptr<const Written> written_in(
    nanobind::handle row, std::string_view kind,
    const std::shared_ptr<RaisedInPython>& raised);

/// "replica policy 'Mine'", for errors.
inline std::string name_of(const Written& written) {
  return fmt::format("{} '{}'", written.kind, written.name);
}

/// Does something with the policy's Python; errors name the policy. With the
/// GIL.
template <class Do>
auto in_policy(const Written& written, Do&& work) {
  try {
    return in_python(*written.raised, work);
  } catch (const UserError& error) {
    throw UserError("{}: {}", name_of(written), error.what());
  }
}

}  // namespace sluice::python
