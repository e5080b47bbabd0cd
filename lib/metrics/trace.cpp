#include "lib/metrics/trace.h"

#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kProcess = 1;
constexpr double kMicroseconds = 1e6;

Json lane_event(std::string_view what, int block, Json value) {
  const char* key = what == "thread_name" ? "name" : "sort_index";
  return {{"ph", "M"},
          {"name", what},
          {"pid", kProcess},
          {"tid", block},
          {"args", {{key, std::move(value)}}}};
}

}  // namespace

template <class Json>
void TraceWriter::write(const Json& event) {
  out_ << (is_first_ ? "" : ",\n") << event.dump();
  is_first_ = false;
}

TraceWriter::TraceWriter(std::ostream& out, SeatNames names)
    : out_(out), names_(std::move(names)) {
  const int seats = names_.seats();
  out_ << "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
  write(Json{{"ph", "M"},
             {"name", "process_name"},
             {"pid", kProcess},
             {"args", {{"name", "blocks"}}}});
  for (int seat = seats; seat >= 1; --seat) {
    write(lane_event("thread_name", seat, names_.short_of(seat)));
    write(lane_event("thread_sort_index", seat, seats - seat));
  }
}

TraceWriter::~TraceWriter() {
  out_ << "\n]";
  if (!clocks_.empty()) {
    Json all = Json::object();
    for (const auto& [block, clock] : clocks_)
      all[names_.short_of(block)] = {{"offset_s", clock.offset},
                                     {"uncertainty_s", clock.uncertainty},
                                     {"corrected", clock.correction() != 0}};
    out_ << ",\n\"otherData\": "
         << Json{{"clock", "of the coordinator's host"},
                 {"clocks", std::move(all)}}
                .dump();
  }
  out_ << "}\n";
}

void TraceWriter::clock(int block, const ClockOffset& clock) {
  clocks_[block] = clock;
}

void TraceWriter::slice(int block, std::string_view name,
                        std::string_view category, double start, double end,
                        std::string_view action, const Arguments& arguments) {
  Json event = {{"ph", "X"},
                {"name", name},
                {"cat", category},
                {"pid", kProcess},
                {"tid", block},
                {"ts", start * kMicroseconds},
                {"dur", (end - start) * kMicroseconds},
                {"args", {{"action", action}}}};
  for (const auto& [key, value] : arguments)
    event["args"][std::string(key)] = value;
  write(event);
}

void TraceWriter::write_arrow(char phase, std::int64_t id,
                              std::string_view name, int block, double time) {
  Json event = {{"ph", std::string(1, phase)},
                {"name", name},
                {"cat", "message"},
                {"id", id},
                {"pid", kProcess},
                {"tid", block},
                {"ts", time * kMicroseconds}};
  if (phase == 'f') event["bp"] = "e";
  write(event);
}

void TraceWriter::sent(std::int64_t id, std::string_view name, int block,
                       double time) {
  write_arrow('s', id, name, block, time);
}

void TraceWriter::taken(std::int64_t id, std::string_view name, int block,
                        double time) {
  write_arrow('f', id, name, block, time);
}

void TraceWriter::counter(int block, std::string_view name, double time,
                          double value) {
  // Viewers show a counter apart from the lanes, so its name must say the
  // block.
  write(Json{{"ph", "C"},
             {"name", fmt::format("block {}: {}", block, name)},
             {"pid", kProcess},
             {"ts", time * kMicroseconds},
             {"args", {{"value", value}}}});
}

}  // namespace sluice
