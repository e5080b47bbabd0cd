#include "experiments/runs/folder/run_entries.h"

#include <algorithm>
#include <array>
#include <filesystem>

namespace sluice {
namespace {

constexpr std::array<std::string_view, 12> kEntries = {
    "config.toml",       "run.json",        "metrics.jsonl",
    "checkpoints",       "changes.patch",   "trace.json",
    "schedule.txt",      "status.json",     "done",
    "model.safetensors", "tokenizer.model", "metrics-rest.jsonl"};

}  // namespace

bool is_entry_of_run(std::string_view name) {
  return name.starts_with("events.out.tfevents.") ||
         std::find(kEntries.begin(), kEntries.end(), name) != kEntries.end();
}

std::vector<std::string> overwritten_entries_in(const std::string& folder) {
  std::vector<std::string> found;
  for (const std::string_view entry : kEntries)
    if (std::filesystem::exists(std::filesystem::path(folder) / entry))
      found.emplace_back(entry);
  return found;
}

}  // namespace sluice
