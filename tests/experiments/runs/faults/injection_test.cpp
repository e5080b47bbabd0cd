// The grammar of --inject.
#include "experiments/runs/faults/injection.h"

#include <string>

#include <gtest/gtest.h>

namespace sluice::injection_test {

using std::chrono::milliseconds;
using Kind = Injection::Kind;
using Moment = Injection::Moment;

Injection one(const std::string& text) {
  const auto injections = parse_injections(text, 3);
  EXPECT_EQ(injections.size(), 1U);
  return injections.at(0);
}

TEST(Injection, InjectionOfAKillNamesABlockAndATurn) {
  const Injection kill = one("kill block 2 @ turn 50");
  EXPECT_EQ(kill.what, Kind::kill);
  EXPECT_EQ(kill.block, 2);
  EXPECT_EQ(kill.when, Moment::turn);
  EXPECT_EQ(kill.turn, 50);
}

TEST(Injection, MayNameTheTurnByItsNumberAlone) {
  EXPECT_EQ(one("kill block 2@50").turn, 50);
  EXPECT_EQ(one("kill block 2 @ step 50").turn, 50);
}

TEST(Injection, MayWaitForTheStartAnEvaluationOrACheckpoint) {
  EXPECT_EQ(one("stop block 1 @ start").when, Moment::start);
  EXPECT_EQ(one("stop block 1 @ evaluation 4").when, Moment::evaluation);
  const Injection checkpoint = one("hang block 1 @ checkpoint 8");
  EXPECT_EQ(checkpoint.when, Moment::checkpoint);
  EXPECT_EQ(checkpoint.turn, 8);
}

TEST(Injection, InjectionOfADelayNamesALinkAndATime) {
  const Injection delay = one("delay 1->2 20ms");
  EXPECT_EQ(delay.what, Kind::delay);
  EXPECT_EQ(delay.block, 1);
  EXPECT_EQ(delay.to, 2);
  EXPECT_EQ(delay.delay, milliseconds(20));
  EXPECT_EQ(one("delay 3->2 0.5s").delay, milliseconds(500));
}

TEST(Injection, InjectionOfASlowBlockNamesAFactor) {
  EXPECT_EQ(one("slow block 1 x1.5").factor, 1.5);
}

TEST(Injection, InjectionOfACorruptionNamesALinkAndATurn) {
  const Injection corrupt = one("corrupt 2->1 @ 10");
  EXPECT_EQ(corrupt.what, Kind::corrupt);
  EXPECT_EQ(corrupt.block, 2);
  EXPECT_EQ(corrupt.to, 1);
  EXPECT_EQ(corrupt.turn, 10);
}

TEST(Injection, InjectionOfAFailingCheckpointNamesATurn) {
  EXPECT_EQ(one("fail checkpoint @ turn 40").turn, 40);
}

TEST(Injection, ListsAreReadInTheirOrder) {
  const auto list = parse_injections("slow block 1 x2; kill block 3 @ 1;", 3);
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0].what, Kind::slow);
  EXPECT_EQ(list[1].what, Kind::kill);
}

TEST(Injection, TextsAreReadAgainAsTheSame) {
  const auto list = parse_injections(
      "stop block 1@20; delay 1->2 20ms ;fail checkpoint @ turn 4", 3);
  EXPECT_EQ(parse_injections(to_text(list), 3), list);
}

TEST(Injection, HappensOnceUnlessItLasts) {
  EXPECT_TRUE(one("kill block 2 @ 5").is_once());
  EXPECT_FALSE(one("slow block 2 x2").is_once());
}

}  // namespace sluice::injection_test
