#include "experiments/runs/timeline.h"

#include <algorithm>
#include <deque>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "lib/base/error.h"
#include "lib/base/output_file.h"
#include "lib/metrics/trace.h"

namespace sluice {
namespace {

/// Shorter ones are nothing but the call.
constexpr double kShortestWait = 20e-6;  // s

int block_of(const Record& record) {
  return static_cast<int>(record.integer("block"));
}

double start_of(const Record& record) {
  return record.number("start", 0);
}

double end_of(const Record& record) {
  return record.number("end", 0);
}

/// Messages of a kind and batch go from one block to another in order.
using Way = std::tuple<std::string, int, int, std::int64_t>;

Way way_of(const Record& record, bool is_sent) {
  const int block = block_of(record);
  const int peer = static_cast<int>(record.integer("peer"));
  return {record.text("message"), is_sent ? block : peer,
          is_sent ? peer : block, record.integer("batch")};
}

/// Writes with the first action as time 0.
class Drawing {
 public:
  Drawing(std::ostream& out, int blocks, double zero)
      : trace_(out, blocks), zero_(zero) {}

  void clock(int block, const ClockOffset& clock) {
    trace_.clock(block, clock);
  }

  void action(const Record& record) {
    trace_.slice(
        block_of(record), record.text("name"), record.text("category"),
        start_of(record) - zero_, end_of(record) - zero_,
        {{"batch", record.integer("batch")}, {"turn", record.integer("turn")}});
    const double end = end_of(record) - zero_;
    trace_.counter(block_of(record), "waiting bytes", end,
                   record.number("waiting_bytes", 0));
    if (record.find("staleness") != nullptr)
      trace_.counter(block_of(record), "staleness", end,
                     record.number("staleness", 0));
  }

  void wait(const Record& record, bool is_sent) {
    if (end_of(record) - start_of(record) < kShortestWait) return;
    const std::string name =
        is_sent
            ? fmt::format("wait for room towards block {}",
                          record.integer("peer"))
            : fmt::format("wait for {} {} of block {}", record.text("message"),
                          record.integer("batch"), record.integer("peer"));
    trace_.slice(
        block_of(record), name, "wait", start_of(record) - zero_,
        end_of(record) - zero_,
        {{"batch", record.integer("batch")}, {"turn", record.integer("turn")}});
  }

  void arrow(const Record& sent, const Record& taken) {
    ++messages_;
    const std::string name = sent.text("message");
    trace_.sent(messages_, name, block_of(sent), start_of(sent) - zero_);
    trace_.taken(messages_, name, block_of(taken), end_of(taken) - zero_);
  }

 private:
  TraceWriter trace_;
  double zero_;
  std::int64_t messages_ = 0;
};

}  // namespace

TimelineRecord::TimelineRecord(int blocks, std::shared_ptr<Sink> next)
    : blocks_(blocks), next_(std::move(next)) {}

void TimelineRecord::write(const Record& record) {
  const std::string kind = record.text("kind");
  if (kind == "action")
    actions_.push_back(record);
  else if (kind == "taken")
    taken_.push_back(record);
  else if (kind == "sent")
    sent_.push_back(record);
  else if (kind == "clock_offset")
    clocks_[block_of(record)] = clock_offset_from(record);
  else
    next_->write(record);
}

std::vector<Record> TimelineRecord::in_order(
    const std::vector<Record>& records) const {
  std::vector<Record> ordered = records;
  for (Record& record : ordered) {
    const auto clock = clocks_.find(block_of(record));
    if (clock == clocks_.end()) continue;
    const double ahead = clock->second.correction();
    record.set("start", start_of(record) - ahead);
    record.set("end", end_of(record) - ahead);
  }
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const Record& left, const Record& right) {
                     return start_of(left) < start_of(right);
                   });
  return ordered;
}

void TimelineRecord::save(const std::string& folder) const {
  if (actions_.empty()) return;
  const std::string path = folder + "/trace.json";
  OutputFile file(path);
  const std::vector<Record> actions = in_order(actions_);
  {
    Drawing drawing(file, blocks_, start_of(actions.front()));
    for (const auto& [block, clock] : clocks_) drawing.clock(block, clock);
    for (const Record& action : actions) drawing.action(action);
    std::map<Way, std::deque<Record>> under_way;
    for (const Record& sent : in_order(sent_)) {
      drawing.wait(sent, /*is_sent=*/true);
      under_way[way_of(sent, true)].push_back(sent);
    }
    for (const Record& taken : in_order(taken_)) {
      drawing.wait(taken, /*is_sent=*/false);
      std::deque<Record>& sent = under_way[way_of(taken, false)];
      if (sent.empty()) continue;  // before the trace began
      drawing.arrow(sent.front(), taken);
      sent.pop_front();
    }
  }
  file.flush();
  if (!file) throw UserError("{}: can't be written", path);
}

}  // namespace sluice
