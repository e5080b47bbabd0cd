#include "lib/schedules/trace.h"

#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kProcess = 1;
constexpr double kMicroseconds = 1e6;

std::string_view name_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return "forward";
    case ActionKind::backward:
      return "backward";
    case ActionKind::update:
      return "update";
    case ActionKind::evaluate:
      return "evaluate";
    case ActionKind::learn:
      return "learn";
    case ActionKind::checkpoint:
      return "checkpoint";
    case ActionKind::learn_input:
      return "learn input";
  }
  return "";
}

Json lane_event(std::string_view what, int block, Json value) {
  const char* key = what == "thread_name" ? "name" : "sort_index";
  return {{"ph", "M"},
          {"name", what},
          {"pid", kProcess},
          {"tid", block},
          {"args", {{key, std::move(value)}}}};
}

auto key_of(const Transfer& transfer) {
  return std::make_tuple(transfer.kind, transfer.from, transfer.to,
                         transfer.batch);
}

/// An arrow belongs to the slice that is open at its time: not to one that ends
/// just then.
double within(const TimedAction& timed) {
  return timed.start + 0.99 * (timed.end - timed.start);
}

}  // namespace

TraceWriter::TraceWriter(std::ostream& out, Plans plans)
    : out_(out), plans_(std::move(plans)) {
  out_ << "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
  const int blocks = static_cast<int>(plans_.at(0).blocks.size());
  for (int block = blocks; block >= 1; --block) {
    write_event(lane_event("thread_name", block, fmt::format("block {}", block))
                    .dump());
    // The last block on top, as it is drawn elsewhere.
    write_event(lane_event("thread_sort_index", block, blocks - block).dump());
  }
}

TraceWriter::~TraceWriter() {
  out_ << "\n]}\n";
}

void TraceWriter::write_event(const std::string& json) {
  out_ << (is_first_ ? "" : ",\n") << json;
  is_first_ = false;
}

void TraceWriter::write_flow(char phase, std::int64_t id,
                             const Transfer& transfer, int block, double time) {
  Json event = {{"ph", std::string(1, phase)},
                {"name", name_of(transfer.kind)},
                {"cat", "message"},
                {"id", id},
                {"pid", kProcess},
                {"tid", block},
                {"ts", time * kMicroseconds}};
  if (phase == 'f') event["bp"] = "e";
  write_event(event.dump());
}

void TraceWriter::write(const TimedAction& timed) {
  const Action& action = timed.action;
  write_event(Json{{"ph", "X"},
                   {"name", to_text(action)},
                   {"cat", name_of(action.kind)},
                   {"pid", kProcess},
                   {"tid", timed.block},
                   {"ts", timed.start * kMicroseconds},
                   {"dur", (timed.end - timed.start) * kMicroseconds},
                   {"args", {{"batch", action.batch}, {"turn", action.turn}}}}
                  .dump());
  const RunPlan& plan = plans_.at(static_cast<std::size_t>(action.phase));
  for (const Transfer& need : needs_of(plan, timed.block, action)) {
    const auto sent = under_way_.find(key_of(need));
    if (sent == under_way_.end()) continue;  // before the trace began
    write_flow('f', sent->second, need, timed.block, timed.start);
    under_way_.erase(sent);
  }
  for (const Transfer& yield : yields_of(plan, timed.block, action)) {
    under_way_[key_of(yield)] = ++messages_;
    write_flow('s', messages_, yield, timed.block, within(timed));
  }
}

}  // namespace sluice
