#include "lib/engines/crew.h"

#include <algorithm>
#include <span>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::crew_test {

/// Two blocks, of which the first carries out whatever it has before the second
/// does.
class HurriedCrew final : public Crew {
 public:
  HurriedCrew(CrewEvents events, std::size_t ahead)
      : events_(std::move(events)), ahead_(ahead) {}

  void give(const Grant& grant, std::span<const Batch>) override {
    given.push_back(grant);
    most_ready = std::max(most_ready, given.size() - reached_[0]);
  }
  void wait() override {
    const std::size_t k = reached_[0] < given.size() ? 0 : 1;
    events_.reached(static_cast<int>(k) + 1, reached_[k]);
    ++reached_[k];
  }
  CrewProgress progress() const override {
    return {given.size(), reached_[0], reached_[1], ahead_};
  }
  std::optional<NamedTensors> weights() const override { return std::nullopt; }

  std::vector<Grant> given;
  std::size_t most_ready = 0;  // at the first block

 private:
  CrewEvents events_;
  std::size_t ahead_;
  std::size_t reached_[2] = {};
};

TEST(RunToEnd, GivesEveryTurnOnceAndWaitsForAllBlocks) {
  Coordinator coordinator({.turns = 100, .evaluate_every = {30}}, 2, nullptr,
                          nullptr);
  HurriedCrew crew(events_for(coordinator), 1);
  run_to_end(crew, coordinator);
  std::int64_t next = 0;
  for (const Grant& grant : crew.given) {
    EXPECT_EQ(grant.first_turn, next);
    next = grant.end_turn;
  }
  EXPECT_EQ(next, 100);
  EXPECT_EQ(crew.progress().slowest, crew.given.size());
}

TEST(RunToEnd, DecidesAGrantWhenABlockWouldWaitForIt) {
  for (const std::size_t ahead : {0, 1, 3}) {
    Coordinator coordinator({.turns = 500}, 2, nullptr, nullptr);
    HurriedCrew crew(events_for(coordinator), ahead);
    run_to_end(crew, coordinator);
    EXPECT_EQ(crew.most_ready, ahead + 1);
  }
}

TEST(RunToEnd, WaitsForTheEvaluationThatMayEndTheRun) {
  const RunLength length = {.turns = 1000,
                            .evaluate_every = {10},
                            .evaluation_batches = 1,
                            .early_stop = {.patience = 2}};
  Coordinator coordinator(length, 2, nullptr, nullptr);
  CrewEvents events = events_for(coordinator);
  events.reached = [&, reached = events.reached](int block, std::size_t n) {
    Record worse;
    worse.set("kind", "evaluation");
    worse.set("accuracy", 1.0 / static_cast<double>(n + 1));
    if (block == 2 && n > 0) coordinator.write(worse);
    reached(block, n);
  };
  HurriedCrew crew(std::move(events), 1);
  run_to_end(crew, coordinator);
  EXPECT_EQ(crew.given.back().end_turn, 30);
}

}  // namespace sluice::crew_test
