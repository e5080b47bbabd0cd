#include "experiments/report/study/methods.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <variant>

namespace sluice::report {
namespace {

/// Methods by the number of their colour, which is equal in all reports; 0 is
/// the baseline's.
constexpr std::array<std::string_view, 7> kColours = {
    "backprop",         "local_loss",      "synthetic_gradient",
    "delayed_gradient", "features_replay", "fully_decoupled",
    "target_projection"};
constexpr int kOthers = 7;

int colour_of(const std::string& method) {
  const auto* const at = std::find(kColours.begin(), kColours.end(), method);
  return at == kColours.end() ? kOthers
                              : static_cast<int>(at - kColours.begin());
}

const std::string* policy_of(const ConfigNode& boundary) {
  const ConfigNode* policy = boundary.find("policy");
  return policy == nullptr ? nullptr : std::get_if<std::string>(&policy->value);
}

void add_policies(const ConfigNode& config, std::vector<std::string>& found) {
  const ConfigNode* boundaries = config.find("boundary");
  const auto* table = boundaries == nullptr
                          ? nullptr
                          : std::get_if<ConfigNode::Table>(&boundaries->value);
  if (table == nullptr) return;
  const auto add = [&](const std::string* policy) {
    if (policy != nullptr &&
        std::find(found.begin(), found.end(), *policy) == found.end())
      found.push_back(*policy);
  };
  add(policy_of(*boundaries));
  for (const auto& [number, boundary] : *table) add(policy_of(boundary));
}

}  // namespace

std::string method_of(const StudyCell& cell) {
  const ConfigNode* config = cell.config();
  if (config == nullptr) return "";
  std::vector<std::string> policies;
  add_policies(*config, policies);
  if (const ConfigNode* timetable = config->find("timetable"))
    if (const auto* phases = std::get_if<ConfigNode::Array>(&timetable->value))
      for (const ConfigNode& phase : *phases) add_policies(phase, policies);
  std::string method;
  for (const std::string& policy : policies)
    method += (method.empty() ? "" : ", ") + policy;
  return method.empty() ? "backprop" : method;
}

CellStyle StyleBook::next(int colour) {
  constexpr std::size_t kAll = kStyleColours * kStyleVariants;
  if (used_.size() == kAll) used_.clear();
  for (int variant = 0; variant < kStyleVariants; ++variant)
    if (used_.insert({colour, variant}).second) return {colour, variant};
  // Variants are gone through from the last: a colour's first variant belongs
  // to its owner.
  for (int variant = kStyleVariants - 1; variant >= 0; --variant)
    for (int other = kStyleColours - 1; other >= 0; --other)
      if (used_.insert({other, variant}).second) return {other, variant};
  return {colour, 0};
}

std::vector<CellStyle> styles_of(const Study& study) {
  StyleBook book;
  std::vector<CellStyle> styles;
  for (const StudyCell& cell : study.cells)
    styles.push_back(book.next(colour_of(cell.method)));
  return styles;
}

}  // namespace sluice::report
