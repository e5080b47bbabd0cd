#include "auxiliary_heads/site.h"

#include <fmt/ranges.h>

#include "lib/base/error.h"
#include "lib/base/random.h"

namespace sluice {

void check_features(const Site& site, std::string_view head) {
  if (site.features.size() != 1 && site.features.size() != 3) {
    throw UserError(
        "[{}] block {}: takes features of shape [C] or [C, H, W], not [{}]",
        head, site.block, fmt::join(site.features, ", "));
  }
  if (site.classes < 2) {
    throw UserError("[{}] block {}: needs 2 classes or more, not {}", head,
                    site.block, site.classes);
  }
}

std::uint64_t head_key(const Site& site, std::string_view head) {
  return random_key(
      {site.seed, static_cast<std::uint64_t>(site.layer), key_part(head)});
}

}  // namespace sluice
