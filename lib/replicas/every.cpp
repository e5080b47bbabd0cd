#include "lib/replicas/every.h"

#include <cstdint>
#include <variant>

#include <fmt/format.h>

namespace sluice {
namespace {

constexpr std::int64_t kMostUpdates = 1'000'000'000'000;

std::int64_t updates_of(const ConfigNode& written, const Fields& fields) {
  const auto* number = std::get_if<std::int64_t>(&written.value);
  if (number == nullptr || *number < 1 || *number > kMostUpdates)
    fields.reject("every",
                  fmt::format("expected an integer from 1 to {}, or a list of "
                              "one for each replica, got {}",
                              kMostUpdates, written.literal()));
  return *number;
}

}  // namespace

void describe_every(Fields& fields, ReplicaKind& kind,
                    const std::string& what) {
  ConfigNode written = {.value = kind.exchange.every};
  fields.key(
      "every", written, "integer | list of integers",
      {.text = what + "; or, with schedule = 'free', a list with a number for "
                      "each replica, in proportion to their speeds (dynamic "
                      "local updates)",
       .unit = "updates"});
  const auto* list = std::get_if<ConfigNode::Array>(&written.value);
  if (list == nullptr) {
    kind.exchange.every = updates_of(written, fields);
    return;
  }
  for (const ConfigNode& item : *list)
    kind.every_of.push_back(updates_of(item, fields));
  if (kind.every_of.empty())
    fields.reject("every", "expected a number for each replica, got none");
  kind.exchange.every = kind.every_of.front();
}

}  // namespace sluice
