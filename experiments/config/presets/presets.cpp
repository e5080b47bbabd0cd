#include "experiments/config/presets/presets.h"

#include <vector>

namespace sluice {
namespace {

std::vector<PresetRow> all_presets() {
  std::vector<PresetRow> all;
  for (const auto part :
       {pipeline_presets(), training_presets(), averaging_presets(),
        peer_presets(), compressed_presets()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace

std::span<const PresetRow> presets() {
  static const std::vector<PresetRow> rows = all_presets();
  return rows;
}

}  // namespace sluice
