#include "lib/engines/crew.h"

#include <utility>

namespace sluice {
namespace {

class EventSink final : public Sink {
 public:
  explicit EventSink(std::function<void(const Record&)> record)
      : record_(std::move(record)) {}
  void write(const Record& record) override {
    if (record_) record_(record);
  }

 private:
  std::function<void(const Record&)> record_;
};

}  // namespace

std::shared_ptr<Sink> sink_for(const CrewEvents& events) {
  return std::make_shared<EventSink>(events.record);
}

CrewEvents events_for(Coordinator& coordinator) {
  return {.record = [&](const Record& record) { coordinator.write(record); },
          .reached = [&](int block,
                         std::size_t n) { coordinator.reached(block, n); },
          .lost =
              [&](const LostReplica& lost) {
                coordinator.lost(lost.replica, lost.grants, lost.reason);
              },
          .joined =
              [&](const JoinedReplica& joined) {
                coordinator.joined(joined.replica, joined.first_grant);
              }};
}

void run_to_end(Crew& crew, Coordinator& coordinator) {
  using Answer = Coordinator::Answer;
  Coordinator::CoordinatorReply next = {Answer::granted, {}};
  while (true) {
    CrewProgress now = crew.progress();
    // Decided as late as is possible without a block waiting for it.
    while (next.answer != Answer::over &&
           now.given <= now.fastest + now.ahead) {
      next = coordinator.ask(now.given);
      if (next.answer != Answer::granted) break;
      crew.give(next.grant);
      now = crew.progress();
    }
    if (next.answer == Answer::over && now.slowest == now.given) return;
    crew.wait();
  }
}

}  // namespace sluice
