#include "experiments/data/samples/label_counts.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "lib/base/error.h"

namespace sluice {

std::string labels_text(std::span<const std::int64_t> labels,
                        std::int64_t classes) {
  std::map<std::int64_t, std::int64_t> counts;
  for (const std::int64_t label : labels) ++counts[label];
  if (counts.empty()) return "no label";
  std::int64_t least = std::ssize(labels);
  std::int64_t most = 0;
  for (const auto& [label, count] : counts) {
    least = std::min(least, count);
    most = std::max(most, count);
  }
  const std::int64_t missing = classes - std::ssize(counts);
  return fmt::format(
      "labels {} to {}, {} each{}", counts.begin()->first,
      counts.rbegin()->first,
      least == most ? fmt::format("{}", least)
                    : fmt::format("{} to {}", least, most),
      missing > 0
          ? fmt::format("; {} of {} classes without a sample", missing, classes)
          : "");
}

std::int64_t classes_of_labels(std::span<const std::int64_t> labels,
                               const std::string& name) {
  const auto largest = std::max_element(labels.begin(), labels.end());
  if (largest == labels.end()) throw UserError("{}: has no label", name);
  // Checked before 1 is added, which would overflow for the largest integer.
  if (*largest >= std::ssize(labels))
    throw UserError(
        "{}: sample {} has the label {}, which makes more classes than the {} "
        "samples there are; correct it, or say how many there are with "
        "data.classes",
        name, largest - labels.begin(), *largest, labels.size());
  if (*largest == 0 && std::all_of(labels.begin(), labels.end(),
                                   [](std::int64_t each) { return each == 0; }))
    throw UserError(
        "{}: all labels are 0, so that every answer would be right; if there "
        "are more classes, say so with data.classes",
        name);
  return std::max<std::int64_t>(*largest, 0) + 1;
}

}  // namespace sluice
