#include "lib/metrics/records.h"

#include <cstdio>
#include <string>

#include <fmt/format.h>

namespace sluice::records {
namespace {

constexpr const char* kTime = "time";

}  // namespace

void stamp(Record& record, double time) {
  record.set(kTime, time);
}

bool is_place(std::string_view name) {
  return fields::is_listed(name, "turn, block, layer, batch, epoch, time");
}

Record to_record(const SavedClock& clock) {
  Record record;
  for (const SavedClock::BlockClock& block : clock.blocks) {
    if (block.block == 1) record.set("turns", clock.turns);
    record.set(fmt::format("at_{}", block.block), block.at);
    record.set(fmt::format("busy_{}", block.block), block.busy);
  }
  record.set("kind", std::string(SavedClock::kKind));
  record.set("turn", clock.turn);
  record.set("phase", clock.phase);
  for (const auto& [to, time] : clock.gradients)
    record.set(fmt::format("gradient_{}_{}", to.first, to.second), time);
  return record;
}

std::optional<SavedClock> saved_clock_from(const Record& record) {
  if (!record.is<SavedClock>()) return std::nullopt;
  SavedClock clock{.turn = record.integer("turn"),
                   .phase = record.integer("phase"),
                   .turns = record.integer("turns")};
  for (const auto& [name, value] : record.values) {
    int block = 0;
    long long batch = 0;
    if (std::sscanf(name.c_str(), "at_%d", &block) == 1)
      clock.blocks.push_back(
          {.block = block,
           .at = record.number(name, 0),
           .busy = record.number(fmt::format("busy_{}", block), 0)});
    if (std::sscanf(name.c_str(), "gradient_%d_%lld", &block, &batch) == 2)
      clock.gradients[{block, batch}] = record.number(name, 0);
  }
  return clock;
}

}  // namespace sluice::records
