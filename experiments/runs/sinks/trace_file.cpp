#include "experiments/runs/sinks/trace_file.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <map>

#include <nlohmann/json.hpp>

#include "experiments/config/files/json_file.h"
#include "lib/base/error.h"
#include "lib/base/whole_number.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kSeconds = 1e-6;  // of the file's unit

TracedAction action_of(const Json& event) {
  const double start = event.at("ts").get<double>() * kSeconds;
  const Json arguments = event.value("args", Json::object());
  return {
      .block = whole_number<int>(event.at("tid")),
      // Older files have it as the slice's name.
      .name = arguments.value("action", event.at("name").get<std::string>()),
      .category = event.value("cat", ""),
      .start = start,
      .end = start + event.value("dur", 0.0) * kSeconds,
      .turn = arguments.value("turn", std::int64_t{0})};
}

/// An arrow has two ends with the same number.
class Arrows {
 public:
  void begin(const Json& event) { begun_[event.at("id").dump()] = event; }
  void end(const Json& event, std::vector<TracedMessage>& messages) {
    const auto from = begun_.find(event.at("id").dump());
    if (from == begun_.end()) return;
    messages.push_back({.name = event.at("name").get<std::string>(),
                        .from = whole_number<int>(from->second.at("tid")),
                        .to = whole_number<int>(event.at("tid")),
                        .sent = from->second.at("ts").get<double>() * kSeconds,
                        .taken = event.at("ts").get<double>() * kSeconds});
    begun_.erase(from);
  }

 private:
  std::map<std::string, Json> begun_;
};

}  // namespace

TraceFile read_trace(const std::string& path, std::int64_t turns) {
  TraceFile trace;
  const Json json = read_json_file(path);
  try {
    Arrows arrows;
    for (const Json& event : json.at("traceEvents")) {
      const std::string phase = event.value("ph", "");
      if (phase == "X") trace.actions.push_back(action_of(event));
      if (phase == "s") arrows.begin(event);
      if (phase == "f") arrows.end(event, trace.messages);
    }
  } catch (const Json::exception& error) {
    throw UserError("{}: is damaged ({}); remove it", path, reason_of(error));
  }
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for (const TracedAction& action : trace.actions)
    first = std::min(first, action.turn);
  std::erase_if(trace.actions, [&](const TracedAction& action) {
    return action.turn - first >= turns;
  });
  std::map<int, double> ends;
  for (const TracedAction& action : trace.actions)
    ends[action.block] = std::max(ends[action.block], action.end);
  std::erase_if(trace.messages, [&](const TracedMessage& message) {
    return message.sent > ends[message.from] ||
           message.taken > ends[message.to];
  });
  return trace;
}

}  // namespace sluice
