#include "lib/blocks/layer_names.h"

#include <charconv>
#include <system_error>

namespace sluice {

std::optional<std::int64_t> layer_of_name(std::string_view name) {
  constexpr std::string_view kBefore = "layers.";
  if (!name.starts_with(kBefore)) return std::nullopt;
  name.remove_prefix(kBefore.size());
  std::int64_t layer = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data(), end, layer);
  const bool is_layer = error == std::errc() && stop != end && *stop == '.';
  return is_layer ? std::optional(layer) : std::nullopt;
}

}  // namespace sluice
