#include "experiments/config/run_name.h"

#include <cstddef>

#include <fmt/format.h>

#include "lib/base/printable.h"

namespace sluice {
namespace {

/// A file's name has 255 bytes on Linux, and a number follows.
constexpr std::size_t kMostNameBytes = 200;

std::string shown_name(std::string_view name) {
  constexpr std::size_t kShown = 60;
  if (name.size() <= kShown) return printable(name);
  return printable(name.substr(0, kShown)) + "...";
}

}  // namespace

std::string problem_of_name(std::string_view name) {
  constexpr std::string_view kRemedy =
      "it names a folder; use letters, digits, '-' and '_', as in \"mnist-2\"";
  if (name.empty()) return fmt::format("is empty; {}", kRemedy);
  if (name.size() > kMostNameBytes)
    return fmt::format("'{}' has {} bytes, at most {} are allowed; {}",
                       shown_name(name), name.size(), kMostNameBytes, kRemedy);
  if (name.find('/') != name.npos)
    return fmt::format("'{}' has a '/'; {} (--dir says where it lies)",
                       shown_name(name), kRemedy);
  if (name.front() == '.')
    return fmt::format("'{}' begins with a '.'; {}", shown_name(name), kRemedy);
  if (name.front() == ' ' || name.back() == ' ')
    return fmt::format("'{}' begins or ends with a space; {}", shown_name(name),
                       kRemedy);
  if (printable(name) != name)
    return fmt::format("'{}' has a character that can't be seen; {}",
                       shown_name(name), kRemedy);
  return "";
}

void check_name(const Fields& fields, std::string_view name) {
  const std::string problem = problem_of_name(name);
  if (!problem.empty()) fields.reject("name", problem);
}

}  // namespace sluice
