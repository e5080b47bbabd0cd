#include "experiments/data/data_check.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <vector>

#include <ATen/ops/isfinite.h>
#include <fmt/format.h>

#include "experiments/data/samples/samples.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

using Tell = std::function<void(const std::string&)>;

/// Reason not to train on a batch of these samples; empty: it is.
std::string damage_of(const Samples& samples,
                      std::span<const std::int64_t> indices) {
  try {
    const Batch batch = samples.batch(indices, {.augmented = false});
    if (batch.inputs.is_floating_point() &&
        !at::isfinite(batch.inputs).all().item<bool>())
      return "has an input that is NaN or infinite";
    if (batch.labels.defined() && batch.labels.is_floating_point() &&
        !at::isfinite(batch.labels).all().item<bool>())
      return "has a target that is NaN or infinite";
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

/// Batches, and one sample at a time where there is something in one.
DataCheckResult check_split(const std::string& name, const Split& split,
                            const Tell& tell) {
  constexpr std::int64_t kBatch = 256;
  const auto samples = split.samples();
  DataCheckResult checked = {.read = split.size()};
  for (std::int64_t begin = 0; begin < split.size(); begin += kBatch) {
    std::vector<std::int64_t> indices(
        static_cast<std::size_t>(std::min(kBatch, split.size() - begin)));
    std::iota(indices.begin(), indices.end(), begin);
    if (damage_of(*samples, indices).empty()) continue;
    for (const std::int64_t index : indices) {
      const std::string damage = damage_of(*samples, {&index, 1});
      if (damage.empty()) continue;
      ++checked.damaged;
      tell(fmt::format("{}: sample {}: {}", name, index, damage));
    }
  }
  return checked;
}

DataCheckResult check_files(const DataSet& data, const Tell& tell,
                            const Tell& list) {
  DataCheckResult checked;
  for (const FoundFile& file : data.walk()) {
    ++checked.read;
    if (!file.damage.empty()) {
      ++checked.damaged;
      tell(fmt::format("{}: {}", file.split, file.damage));
    } else if (list) {
      list(fmt::format("{} {} {}", file.split, file.what, file.path));
    }
  }
  return checked;
}

}  // namespace

DataCheckResult check_data(const DataSet& data, const Tell& tell,
                           const Tell& list) {
  if (data.walk) return check_files(data, tell, list);
  DataCheckResult checked;
  for (const auto& [name, split] :
       {std::pair("train", &data.train), std::pair("test", &data.test),
        std::pair("validation", &data.validation)}) {
    if (split->size() == 0) continue;
    const DataCheckResult seen = check_split(name, *split, tell);
    checked.read += seen.read;
    checked.damaged += seen.damaged;
  }
  return checked;
}

}  // namespace sluice
