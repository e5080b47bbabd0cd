#include "experiments/runs/watch/watch.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lib/base/error.h"
#include "tests/experiments/helpers/program.h"

namespace sluice::watch_test {

using Json = nlohmann::json;
using testing::HasSubstr;
using testing::Not;

Json block(int number, double waiting_share, double heard = 1000) {
  return {{"block", number},
          {"turn", 41},
          {"turns_per_second", 12.5},
          {"waiting_share", waiting_share},
          {"heard", heard},
          {"loss", 0.5},
          {"queue_below_bytes", 2048},
          {"queue_above_bytes", 0}};
}

Json run(const Json& blocks) {
  return {{"name", "try"},         {"method", "local_loss"},
          {"engine", "processes"}, {"state", "running"},
          {"written", 1000.0},     {"turns", 100},
          {"turns_per_epoch", 50}, {"samples_per_turn", 64},
          {"blocks", blocks}};
}

/// The line of a block, counted from 0.
std::string line(const std::string& page, int number) {
  std::istringstream lines(page);
  std::string text;
  for (int i = 0; i <= number; ++i) std::getline(lines, text);
  return text;
}

TEST(Watch, MarksTheBlockThatWaitsLeast) {
  const std::string page = status_page(
      run({block(1, 0.6), block(2, 0.05), block(3, 0.4)}).dump(), 1000);
  EXPECT_THAT(line(page, 3), Not(HasSubstr("<")));
  EXPECT_THAT(line(page, 4), HasSubstr("<"));
  EXPECT_THAT(line(page, 5), Not(HasSubstr("<")));
  EXPECT_THAT(page, HasSubstr("epoch 0.84 of 2.00, 800 samples/s, 5 s left"));
}

TEST(Watch, WatchOfOneBlockMarksNone) {
  EXPECT_THAT(status_page(run(Json::array({block(1, 0)})).dump(), 1000),
              Not(HasSubstr("<")));
}

TEST(Watch, TellsOfSilence) {
  const std::string page =
      status_page(run({block(1, 0.1, 1019), block(2, 0.5, 990)}).dump(), 1020);
  EXPECT_THAT(line(page, 0), HasSubstr("silent for 20 s"));
  EXPECT_THAT(line(page, 4), HasSubstr("30 s"));
}

TEST(Watch, FitsATerminalOf80Columns) {
  Json wide = block(123, 0.123, 0);
  wide["turn"] = 123456789;
  wide["loss"] = "nan";
  wide["accuracy"] = 1.0;
  wide["turns_per_second"] = 123456.7;
  wide["queue_above_bytes"] = 123456789;
  std::istringstream lines(status_page(run({wide, wide}).dump(), 1e9));
  for (std::string text; std::getline(lines, text);)
    EXPECT_LE(text.size(), 80U) << text;
}

TEST(Watch, RefusesWhatIsNoStatus) {
  EXPECT_THROW(status_page("{", 0), UserError);
  EXPECT_THROW(status_page("[]", 0), UserError);
  EXPECT_THROW(status_page(R"({"blocks": 5})", 0), UserError);
  EXPECT_THROW(status_page(R"({"blocks": [1]})", 0), UserError);
  EXPECT_THROW(status_page(R"({"blocks": [{"turn": "x"}]})", 0), UserError);
}

class WatchProgram : public Program {};

TEST_F(WatchProgram, ShowsARunThatIsDoneAndEnds) {
  for (const char* engine : {"virtual", "processes"}) {
    const std::string dir = path(engine);
    ASSERT_EQ(sluice("run " + write("config.toml", config_with("")) +
                     " engine=" + engine + " --dir " + dir)
                  .status,
              0);
    const Outcome shown = sluice("watch " + dir);
    EXPECT_EQ(shown.status, 0) << shown.text;
    EXPECT_THAT(line(shown.text, 0), HasSubstr("done"));
    EXPECT_THAT(shown.text, HasSubstr("epoch 1.20 of 1.20"));
    EXPECT_THAT(shown.text, HasSubstr("test loss"));
    EXPECT_THAT(shown.text, HasSubstr("\n    2        11"));
  }
}

TEST_F(WatchProgram, KnowsWhatWorkersTellEverySecond) {
  const std::string dir = path("run");
  const Outcome run =
      sluice("run " + write("config.toml", config_with("blocks = 2\n")) +
             " engine=processes --inject 'delay 1->2 300ms' --dir " + dir);
  ASSERT_EQ(run.status, 0) << run.text;
  const Json status = Json::parse(slurp(dir + "/status.json"));
  for (const Json& block : status.at("blocks")) {
    EXPECT_GT(block["turns_per_second"].get<double>(), 0.5) << block;
    EXPECT_LT(block["turns_per_second"].get<double>(), 10) << block;
    EXPECT_GT(block["waiting_share"].get<double>(), 0.5) << block;
  }
}

}  // namespace sluice::watch_test
