// trace.json of blocks in threads and processes of their own.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lib/metrics/record.h"
#include "tests/experiments/helpers/program.h"

namespace sluice::timeline_test {

using Json = nlohmann::json;

class Timeline : public Program,
                 public testing::WithParamInterface<const char*> {
 protected:
  /// The events of a run of 12 turns in three blocks, by their phase.
  std::map<std::string, std::vector<Json>> events(const std::string& policy) {
    const std::string config = write(
        "config.toml",
        config_with(fmt::format("blocks = 3\nmodel = {{hidden = [24, 20, "
                                "16]}}\nboundary = {{policy = '{}'}}\ntrace = "
                                "{{first = 2, turns = 4}}\n",
                                policy)));
    const Outcome run = sluice(fmt::format("run {} engine={} --dir {}", config,
                                           GetParam(), path("run")));
    EXPECT_EQ(run.status, 0) << run.text;
    std::map<std::string, std::vector<Json>> by_phase;
    const Json trace = Json::parse(slurp(path("run/trace.json")));
    for (const Json& event : trace.at("traceEvents"))
      by_phase[event.at("ph")].push_back(event);
    return by_phase;
  }
};

double start_of(const Json& slice) {
  return slice.at("ts");
}

double end_of(const Json& slice) {
  return start_of(slice) + slice.at("dur").get<double>();
}

TEST_P(Timeline, ShowsEveryActionOfItsTurnsInTheLaneOfItsBlock) {
  std::map<std::pair<int, std::string>, int> actions;
  auto all = events("local_loss");
  for (const Json& slice : all["X"])
    if (slice.at("cat") != "wait")
      ++actions[{slice.at("tid"), slice.at("args").at("action")}];
  EXPECT_EQ(actions.size(), 3U * 4 * 3);
  for (int block = 1; block <= 3; ++block)
    for (int turn = 2; turn < 6; ++turn)
      for (const char* kind : {"F", "B", "U"})
        EXPECT_EQ((actions[{block, kind + std::to_string(turn)}]), 1);
}

TEST_P(Timeline, NestsWaitsWithinActions) {
  std::map<int, std::vector<Json>> lanes;
  auto all = events("backprop");
  for (const Json& slice : all["X"]) lanes[slice.at("tid")].push_back(slice);
  std::size_t waits = 0;
  for (auto& [block, slices] : lanes) {
    for (const Json& wait : slices) {
      if (wait.at("cat") != "wait") continue;
      ++waits;
      EXPECT_TRUE(wait.at("args").at("turn") >= 2 &&
                  wait.at("args").at("turn") < 6);
      EXPECT_TRUE(std::any_of(slices.begin(), slices.end(),
                              [&](const Json& action) {
                                return action.at("cat") != "wait" &&
                                       start_of(action) <= start_of(wait) &&
                                       end_of(wait) <= end_of(action);
                              }))
          << wait;
    }
  }
  EXPECT_GT(waits, 0U) << "blocks 1 and 2 wait for gradients";
}

TEST_P(Timeline, HasAnArrowForEachMessageThatGoesForwardInTime) {
  auto all = events("backprop");
  std::map<std::int64_t, Json> sent;
  for (const Json& event : all["s"]) sent[event.at("id")] = event;
  // Two boundaries, four turns, an activation and a gradient each.
  EXPECT_EQ(all["f"].size(), 2U * 4 * 2);
  for (const Json& taken : all["f"]) {
    const Json& from = sent.at(taken.at("id"));
    EXPECT_LE(from.at("ts"), taken.at("ts"));
    EXPECT_EQ(std::abs(from.at("tid").get<int>() - taken.at("tid").get<int>()),
              1);
  }
}

TEST_P(Timeline, CountsTheStalenessOfWhatIsApplied) {
  std::map<std::string, double> most;
  auto all = events("delayed_gradient");
  for (const Json& event : all["C"]) {
    double& value = most[event.at("name")];
    value = std::max(value, event.at("args").at("value").get<double>());
  }
  EXPECT_EQ(most.at("block 1: staleness"), 2);
  EXPECT_EQ(most.at("block 3: staleness"), 0);
  EXPECT_TRUE(most.contains("block 2: waiting bytes"));
}

TEST_P(Timeline, IsNoPartOfTheMetrics) {
  events("backprop");
  std::ifstream metrics(path("run/metrics.jsonl"));
  for (std::string line; std::getline(metrics, line);) {
    const std::string kind = record_from_json(line).text("kind");
    EXPECT_TRUE(kind != "action" && kind != "taken" && kind != "sent") << line;
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, Timeline,
                         testing::Values("threads", "processes"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

class Clocks : public Program {};

TEST_F(Clocks, ClocksOfProcessesOnOneHostAreTheSame) {
  const std::string config = write("config.toml", config_with("blocks = 3\n"));
  EXPECT_EQ(
      sluice("run " + config + " engine=processes --dir " + path("run")).status,
      0);
  const Json trace = Json::parse(slurp(path("run/trace.json")));
  const Json& clocks = trace.at("otherData").at("clocks");
  ASSERT_EQ(clocks.size(), 3U);
  for (const Json& clock : clocks) {
    const double uncertainty = clock.at("uncertainty_s");
    EXPECT_LT(uncertainty, 0.1);
    EXPECT_LE(std::abs(clock.at("offset_s").get<double>()), uncertainty);
    EXPECT_FALSE(clock.at("corrected"));
  }
}

class TimelineOfFailure : public Program {};

TEST_F(TimelineOfFailure, IsThatUntilAWorkerWasLost) {
  const Outcome run =
      sluice("run " + write("config.toml", config_with("")) +
             " engine=processes --inject 'kill block 2 @ turn 5' --dir " +
             path("run"));
  EXPECT_EQ(run.status, 1) << run.text;
  const std::string trace = slurp(path("run/trace.json"));
  EXPECT_NE(trace.find("\"U4\""), std::string::npos);
  EXPECT_TRUE(Json::accept(trace));
}

class NoTimeline : public Program {};

TEST_F(NoTimeline, TimelineOfNoTurnsIsNotWritten) {
  const std::string config =
      write("config.toml", config_with("trace = {turns = 0}\n"));
  EXPECT_EQ(
      sluice("run " + config + " engine=threads --dir " + path("run")).status,
      0);
  EXPECT_FALSE(std::filesystem::exists(path("run/trace.json")));
}

}  // namespace sluice::timeline_test
