#include "experiments/data/found.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace sluice {
namespace {

std::string sizes_text(const DataSet& data) {
  const std::string validation =
      data.has_validation()
          ? fmt::format(", {} validation", data.validation.size())
          : "";
  return fmt::format("{} training{} and {} test samples", data.train.size(),
                     validation, data.test.size());
}

std::string kind_text(const SampleSpec& sample) {
  const char* plural = sample.classes == 1 ? "" : "s";
  if (sample.is_text)
    return fmt::format("windows of {} tokens, vocabulary {}",
                       sample.shape.at(0), sample.classes);
  if (sample.targets == Targets::values)
    return fmt::format("[{}], {} number{} to be predicted",
                       fmt::join(sample.shape, ", "), sample.classes, plural);
  return fmt::format("[{}], {} class{}", fmt::join(sample.shape, ", "),
                     sample.classes, sample.classes == 1 ? "" : "es");
}

}  // namespace

std::string found_line(const DataSet& data) {
  std::string line =
      fmt::format("Data: {}, {}", sizes_text(data), kind_text(data.sample));
  if (!data.found) return line;
  for (const std::string& clause : data.found()) line += "; " + clause;
  return line;
}

}  // namespace sluice
