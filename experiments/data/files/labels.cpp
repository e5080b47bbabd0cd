#include "experiments/data/files/labels.h"

#include <cstddef>

#include "lib/base/error.h"

namespace sluice {

void check_labels(const std::string& path, std::span<const std::uint8_t> labels,
                  std::int64_t classes) {
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] >= classes) {
      throw UserError("{}: sample {} has the label {}, expected 0 to {}", path,
                      i, labels[i], classes - 1);
    }
  }
}

}  // namespace sluice
