#include "lib/metrics/simulated_trace.h"

#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lib/schedules/simulation/capacities.h"

namespace sluice::simulated_trace_test {

using Json = nlohmann::json;

std::vector<TimedAction> timeline_of(const RunPlan& plan) {
  std::vector<std::vector<Action>> actions;
  for (const BlockPlan& block : plan.blocks)
    actions.push_back(actions_of(
        block, {.end_turn = 3, .drain = true, .evaluation_batches = 2}));
  const Costs costs{.blocks = std::vector<BlockCosts>(
                        plan.blocks.size(),
                        {.seconds = {{Op::forward, 1}, {Op::backward, 2}}}),
                    .latency = 0.5};
  return simulate(plan, costs, capacities_of(plan, 2), actions);
}

/// The events of a phase ("X": slices), as the trace's readers see them.
std::vector<Json> events_of(const RunPlan& plan, const std::string& phase) {
  std::ostringstream text;
  {
    SimulatedTrace trace(text, {plan});
    for (const TimedAction& timed : timeline_of(plan)) trace.write(timed);
  }
  std::vector<Json> events;
  const Json trace = Json::parse(text.str());
  for (const Json& event : trace.at("traceEvents"))
    if (event.at("ph") == phase) events.push_back(event);
  return events;
}

RunPlan delayed_plan() {
  return make_run_plan({{.delay = 1}, {.delay = 1}}, false);
}

TEST(SimulatedTrace, HasASliceForEveryAction) {
  const auto timeline = timeline_of(delayed_plan());
  const auto slices = events_of(delayed_plan(), "X");
  ASSERT_EQ(slices.size(), timeline.size());
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const TimedAction& timed = timeline[i];
    EXPECT_EQ(slices[i].at("args").at("action"), to_text(timed.action));
    EXPECT_EQ(slices[i].at("tid"), timed.seat);
    EXPECT_EQ(slices[i].at("ts"), timed.start * 1e6);
    EXPECT_EQ(slices[i].at("dur"), (timed.end - timed.start) * 1e6);
    EXPECT_EQ(slices[i].at("args").at("batch"), timed.action.batch);
    EXPECT_EQ(slices[i].at("args").at("turn"), timed.action.turn);
  }
}

TEST(SimulatedTrace, NamesActionsOfAKindAlike) {
  std::map<std::string, std::set<std::string>> actions;
  for (const Json& slice : events_of(delayed_plan(), "X"))
    actions[slice.at("name")].insert(
        slice.at("args").at("action").get<std::string>());
  for (const char* kind : {"forward", "backward", "update"})
    EXPECT_GE(actions[kind].size(), 3U) << kind;
  EXPECT_EQ(actions.count("F0"), 0U);
}

TEST(SimulatedTrace, HasALanePerBlock) {
  std::vector<std::string> names;
  for (const Json& event : events_of(delayed_plan(), "M"))
    if (event.at("name") == "thread_name")
      names.push_back(event.at("args").at("name"));
  EXPECT_EQ(names, (std::vector<std::string>{"block 3", "block 2", "block 1"}));
}

/// The slice of a lane in which a time lies.
std::string slice_at(const std::vector<Json>& slices, const Json& event) {
  const double time = event.at("ts");
  for (const Json& slice : slices) {
    const double start = slice.at("ts");
    const double end = start + slice.at("dur").get<double>();
    if (slice.at("tid") == event.at("tid") && start <= time && time < end)
      return slice.at("args").at("action");
  }
  return "none";
}

TEST(SimulatedTrace, HasAnArrowFromWhatSendsAMessageToWhatTakesIt) {
  const auto slices = events_of(delayed_plan(), "X");
  std::map<std::int64_t, Json> sent;
  for (const Json& event : events_of(delayed_plan(), "s"))
    sent[event.at("id")] = event;
  const auto taken = events_of(delayed_plan(), "f");
  // Two boundaries: 3 activations and 3 gradients each, 2 batches evaluated.
  ASSERT_EQ(taken.size(), 2U * (3 + 3 + 2));
  for (const Json& event : taken) {
    const Json& from = sent.at(event.at("id"));
    EXPECT_EQ(slice_at(slices, event), slice_at(slices, from));
    EXPECT_EQ(std::abs(event.at("tid").get<int>() - from.at("tid").get<int>()),
              1);
    EXPECT_LT(from.at("ts"), event.at("ts"));
  }
}

}  // namespace sluice::simulated_trace_test
