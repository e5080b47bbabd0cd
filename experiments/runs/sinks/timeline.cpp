#include "experiments/runs/sinks/timeline.h"

#include <algorithm>
#include <deque>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "lib/base/error.h"
#include "lib/base/files/output_file.h"
#include "lib/metrics/trace.h"

namespace sluice {
namespace {

/// Waits that are shorter are nothing but the call.
constexpr double kShortestWait = 20e-6;  // s

/// Messages of a kind and batch go from one block to another in order.
using Way = std::tuple<std::string, int, int, std::int64_t>;

Way way_of(const records::SentMessage& sent) {
  return {sent.message, sent.seat, sent.peer, sent.batch};
}

Way way_of(const records::TakenMessage& taken) {
  return {taken.message, taken.peer, taken.seat, taken.batch};
}

/// Writes with the first action as time 0.
class Drawing {
 public:
  Drawing(std::ostream& out, const SeatNames& names, double zero)
      : names_(names), trace_(out, names), zero_(zero) {}

  void clock(int block, const ClockOffset& clock) {
    trace_.clock(block, clock);
  }

  void action(const records::Action& action) {
    slice(action, action.category, action.category, action.name);
    const double end = action.end - zero_;
    trace_.counter(action.seat, "waiting bytes", end,
                   static_cast<double>(action.waiting_bytes));
    if (action.staleness)
      trace_.counter(action.seat, "staleness", end,
                     static_cast<double>(*action.staleness));
  }

  void wait(const records::SentMessage& sent) {
    wait(sent, "wait for room",
         fmt::format("wait for room towards {}", names_.of(sent.peer)));
  }
  void wait(const records::TakenMessage& taken) {
    wait(taken, "wait for " + taken.message,
         fmt::format("wait for {} {} of {}", taken.message, taken.batch,
                     names_.of(taken.peer)));
  }

  void arrow(const records::SentMessage& sent,
             const records::TakenMessage& taken) {
    ++messages_;
    trace_.sent(messages_, sent.message, sent.seat, sent.start - zero_);
    trace_.taken(messages_, sent.message, taken.seat, taken.end - zero_);
  }

 private:
  void wait(const records::MessageSpan& moved, const std::string& name,
            const std::string& action) {
    if (moved.end - moved.start >= kShortestWait)
      slice(moved, name, "wait", action);
  }
  void slice(const auto& told, const std::string& name,
             std::string_view category, const std::string& action) {
    trace_.slice(told.seat, name, category, told.start - zero_,
                 told.end - zero_, action,
                 {{"batch", told.batch}, {"turn", told.turn}});
  }

  const SeatNames names_;
  TraceWriter trace_;
  double zero_;
  std::int64_t messages_ = 0;
};

}  // namespace

TimelineRecord::TimelineRecord(const SeatNames& names,
                               std::shared_ptr<Sink> next)
    : names_(names), next_(std::move(next)) {}

void TimelineRecord::write(const Record& record) {
  if (auto action = record.as<records::Action>())
    actions_.push_back(*std::move(action));
  else if (auto taken = record.as<records::TakenMessage>())
    taken_.push_back(*std::move(taken));
  else if (auto sent = record.as<records::SentMessage>())
    sent_.push_back(*std::move(sent));
  else if (const auto clock = record.as<records::ClockOffset>())
    clocks_[clock->seat] = {clock->offset_s, clock->uncertainty_s};
  else
    next_->write(record);
}

template <class TimedRecord>
std::vector<TimedRecord> TimelineRecord::in_order(
    std::vector<TimedRecord> told) const {
  for (TimedRecord& each : told) {
    const auto clock = clocks_.find(each.seat);
    if (clock == clocks_.end()) continue;
    each.start -= clock->second.correction();
    each.end -= clock->second.correction();
  }
  std::stable_sort(told.begin(), told.end(),
                   [](const TimedRecord& left, const TimedRecord& right) {
                     return left.start < right.start;
                   });
  return told;
}

void TimelineRecord::save(const std::string& folder) const {
  if (actions_.empty()) return;
  const std::string path = folder + "/trace.json";
  OutputFile file(path);
  const auto actions = in_order(actions_);
  {
    Drawing drawing(file, names_, actions.front().start);
    for (const auto& [block, clock] : clocks_) drawing.clock(block, clock);
    for (const auto& action : actions) drawing.action(action);
    std::map<Way, std::deque<records::SentMessage>> under_way;
    for (const records::SentMessage& sent : in_order(sent_)) {
      drawing.wait(sent);
      under_way[way_of(sent)].push_back(sent);
    }
    for (const records::TakenMessage& taken : in_order(taken_)) {
      drawing.wait(taken);
      std::deque<records::SentMessage>& sent = under_way[way_of(taken)];
      if (sent.empty()) continue;  // before the trace began
      drawing.arrow(sent.front(), taken);
      sent.pop_front();
    }
  }
  file.flush();
  if (!file) throw UserError("{}: can't be written", path);
}

}  // namespace sluice
