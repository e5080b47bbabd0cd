// The centre of a block, to which replicas come when they are ready.
#include "lib/replicas/centre/centre.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/by_block.h"
#include "lib/replicas/centre_rules.h"
#include "tests/lib/replicas/centre/centre_links.h"

namespace sluice::centre_test {

using centre_links::CentreLinks;
using centre_links::closed;
using centre_links::finish;
using centre_links::opened;
using centre_links::rest;
using centre_links::rest_of;
using centre_links::setup_of;
using centre_links::start;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(CentreState, IsThatOfTheLastRestAndGoesOn) {
  const auto rule = [] { return movement_centre({{"w", start()}}, 2, 1); };
  CentreLinks links = opened(2, rule());
  links[1]->visit({.member = 2, .tensors = {start() + 1}});
  rest(links);
  links[1]->visit({.member = 2, .tensors = {start() + 9}});
  const NamedTensors saved = rest_of(links).state;
  EXPECT_TRUE(saved.at(0).second.equal(start() + 1));

  CentreLinks again = closed(2, rule());
  again[0]->open({.parameters = {{"w", start()}}, .state = saved});
  const ServerAnswer next =
      again[0]->visit({.member = 1, .tensors = {start() + 2}});
  EXPECT_EQ(next.place, 2);
  EXPECT_TRUE(next.tensors[0].equal(start() + 3));
  finish(links);
  finish(again);
}

// None of them begins with what another one had before it was lost.
TEST(CentreState, GivesReplicasThatReturnTogetherTheMeanOfTheOthers) {
  const auto rule = [] {
    return pair_centre({{"w", start()}}, 4,
                       {.shape = PeerShape::ring, .pairs = true}, true);
  };
  CentreLinks links = opened(4, rule());
  for (const int member : {3, 4})
    by_block(links, member)
        ->visit({.member = member, .tensors = {start() + 8}});
  rest(links);
  EXPECT_FALSE(rest_of(links).weights[0].equal(start()));

  CentreLinks again = closed(4, rule());
  again[0]->open({.parameters = {{"w", start()}},
                  .state = rest_of(links).state,
                  .returning = {3, 4}});
  rest(again);
  EXPECT_TRUE(rest_of(again).weights[0].equal(start()));
  finish(links);
  finish(again);
}

TEST(CentreState, IsTakenAloneByTheReplicaThatOpenedIt) {
  CentreLinks links = opened(2, movement_centre({{"w", start()}}, 2, 1));
  EXPECT_FALSE(links[0]->at_rest());
  rest(links);
  EXPECT_TRUE(links[0]->at_rest());
  EXPECT_FALSE(links[1]->at_rest());
  finish(links);
}

/// What a centre says, in the order in which it says it.
using Answers = std::vector<std::pair<int, CentreMessage>>;

Centre silent_centre(Answers& said, std::unique_ptr<CentreRule> rule,
                     const Quorum& quorum = {}) {
  return {setup_of(3, std::move(rule), quorum),
          [&said](int member, const Message& message) {
            said.emplace_back(member, said_in(message));
          }};
}

Message opening() {
  return message_of(CentreOpening{.parameters = {{"w", start()}}});
}

Message push_of(int member) {
  return message_of(Push{.member = member, .tensors = {start()}},
                    CentreMessage::push);
}

TEST(Centre, AnswersWhatCameBeforeItWasOpenedWhenItIs) {
  Answers said;
  Centre centre = silent_centre(said, movement_centre({{"w", start()}}, 3, 1));
  centre.hear(3, push_of(3));
  centre.hear(2, push_of(2));
  EXPECT_THAT(said, IsEmpty());
  centre.hear(1, opening());
  EXPECT_EQ(said,
            (Answers{{3, CentreMessage::push}, {2, CentreMessage::push}}));
}

TEST(Centre, DealsBeforeItIsOpened) {
  Answers said;
  Centre centre = silent_centre(said, movement_centre({{"w", start()}}, 3, 1));
  centre.hear(2, message_of(DealRequest{.first = 0, .end = 3}));
  EXPECT_EQ(said, (Answers{{2, CentreMessage::deal}}));
}

// A replica that waits gets one failure; one that comes later gets it then.
TEST(Centre, TellsEachReplicaOnceThatAnotherIsGone) {
  for (const bool is_open : {false, true}) {
    Answers said;
    Centre centre =
        silent_centre(said, summing_centre({{"w", start()}}, {}), {.least = 3});
    if (is_open) centre.hear(1, opening());
    centre.hear(2, message_of_arrival({}));
    centre.leave(3);
    EXPECT_EQ(said, (Answers{{2, CentreMessage::failure}})) << is_open;
    centre.hear(1, push_of(1));
    EXPECT_EQ(said.size(), 2U) << is_open;
    EXPECT_EQ(said.back(), std::pair(1, CentreMessage::failure)) << is_open;
  }
}

TEST(Centre, TellsWhoBroughtTheMessageThatItCannotRead) {
  Answers said;
  Centre centre = silent_centre(said, movement_centre({{"w", start()}}, 3, 1));
  centre.hear(1, opening());
  centre.hear(2, message_of_arrival({}));
  centre.hear(3, message_for(CentreMessage::push));
  EXPECT_EQ(said, (Answers{{2, CentreMessage::failure},
                           {3, CentreMessage::failure}}));
}

TEST(Centre, IsDueOnlyWhileAReplicaWaitsForAQuorumThatIsThere) {
  Answers said;
  Centre centre = silent_centre(said, summing_centre({{"w", start()}}, {}),
                                {.least = 1, .grace = 3600});
  centre.hear(1, opening());
  EXPECT_FALSE(centre.due());
  Message brought = push_of(2);
  brought.round = static_cast<std::int64_t>(CentreMessage::bring);
  centre.hear(2, brought);
  EXPECT_FALSE(centre.due()) << "nobody waits";
  centre.hear(2, message_of(0, CentreMessage::take));
  EXPECT_GT(centre.due(), std::chrono::steady_clock::now());
  centre.come_due();
  EXPECT_FALSE(centre.due());
  EXPECT_EQ(said.back(), std::pair(2, CentreMessage::take));
}

TEST(Centre, MergesLessThanAQuorumWhereNoneComesAnyMore) {
  Answers said;
  Centre centre =
      silent_centre(said, summing_centre({{"w", start()}}, {}), {.least = 2});
  centre.hear(1, opening());
  centre.merge_those_who_wait();
  Message brought = push_of(2);
  brought.round = static_cast<std::int64_t>(CentreMessage::bring);
  centre.hear(2, brought);
  centre.hear(2, message_of(0, CentreMessage::take));
  EXPECT_EQ(said.back(), std::pair(2, CentreMessage::bring));
  centre.merge_those_who_wait();
  EXPECT_EQ(said.back(), std::pair(2, CentreMessage::take));
}

/// A centre that serves each batch once: a step of 1 by each gradient.
struct CentreOfBatches {
  CentreOfBatches() { centre.hear(1, opening()); }

  ServerAnswer push(int member, std::int64_t batch) {
    centre.hear(member, message_of(Push{.member = member,
                                        .tensors = {at::ones({4}, at::kDouble)},
                                        .info = {.rate = 1},
                                        .batch = batch},
                                   CentreMessage::push));
    return served_in(last);
  }
  CentreAtRest rest() {
    for (int member = 1; member <= 3; ++member)
      centre.hear(member, message_of_arrival({}));
    return at_rest.value();
  }

  static CentreSetup setup() {
    CentreSetup of = setup_of(3, gradient_centre({{"w", start()}}, {}, 3));
    of.serves_once = true;
    return of;
  }
  Message last;
  std::optional<CentreAtRest> at_rest;
  Centre centre{setup(), [this](int /*member*/, const Message& message) {
                  last = message;
                  if (said_in(message) == CentreMessage::arrival)
                    if (auto said = rest_in(message)) at_rest = std::move(said);
                }};
};

// A replica that was lost had brought it to this block, and not to the first.
TEST(Centre, ServesABatchOnceThatIsDealtAgain) {
  CentreOfBatches of;
  of.push(2, 0);
  EXPECT_TRUE(of.push(3, 1).tensors[0].equal(start() - 2));
  of.centre.leave(3);
  const ServerAnswer again = of.push(2, 1);
  EXPECT_TRUE(again.tensors[0].equal(start() - 2)) << "it takes what there is";
  EXPECT_EQ(again.rate, 0);
  EXPECT_EQ(again.clock, 2);
  EXPECT_EQ(again.place, 3) << "it has its place among those that came";
  EXPECT_TRUE(of.push(2, 2).tensors[0].equal(start() - 3));
}

TEST(CentreState, HasTheBatchesThatAreToBeDealtAgain) {
  CentreOfBatches before;
  const auto deal = [](CentreOfBatches& of, int member) {
    of.centre.hear(member, message_of(DealRequest{.first = 0, .end = 9}));
    return dealt_in(of.last);
  };
  for (const int member : {2, 3, 1}) deal(before, member);
  before.push(2, 0);
  before.centre.leave(3);
  before.centre.admit(3);
  const DealtBatches saved = before.rest().batches;
  EXPECT_EQ(saved, (DealtBatches{
                       .returned = {1}, .held = {{1, 2}}, .served = {0, 1}}));

  CentreOfBatches again;
  Centre centre{
      CentreOfBatches::setup(),
      [&](int /*member*/, const Message& message) { again.last = message; }};
  centre.hear(1, message_of(CentreOpening{.parameters = {{"w", start()}},
                                          .batches = saved}));
  const auto next = [&](int member) {
    centre.hear(member, message_of(DealRequest{.first = 9, .end = 12}));
    return dealt_in(again.last);
  };
  EXPECT_EQ(next(2), 1) << "it was lost with another";
  EXPECT_EQ(next(2), 9);
  centre.hear(2, message_of(Push{.member = 2,
                                 .tensors = {at::ones({4}, at::kDouble)},
                                 .info = {.rate = 1},
                                 .batch = 0},
                            CentreMessage::push));
  EXPECT_TRUE(served_in(again.last).tensors[0].equal(start()))
      << "that was served before the checkpoint";
}

// One that returned comes for a batch before the first replica has opened the
// centre.
TEST(Centre, DealsAgainWhatAReturningReplicaHadBeforeTheCheckpointAlone) {
  CentreOfBatches of;
  Centre centre{
      CentreOfBatches::setup(),
      [&](int /*member*/, const Message& message) { of.last = message; }};
  const auto next = [&](int member) {
    centre.hear(member, message_of(DealRequest{.first = 9, .end = 12}));
    return dealt_in(of.last);
  };
  EXPECT_EQ(next(3), 9);
  centre.hear(1, message_of(CentreOpening{.parameters = {{"w", start()}},
                                          .batches = {.held = {{2, 5}, {3, 4}}},
                                          .returning = {3}}));
  EXPECT_EQ(next(2), 4);
  EXPECT_EQ(next(2), 10) << "9 is under way";
}

TEST(Centre, RefusesDamagedBatches) {
  CentreOfBatches of;
  Centre centre{
      CentreOfBatches::setup(),
      [&](int /*member*/, const Message& message) { of.last = message; }};
  centre.hear(1, message_of(CentreOpening{.parameters = {{"w", start()}},
                                          .batches = {.served = {4, 2}}}));
  centre.hear(2, push_of(2));
  EXPECT_THAT(failure_in(of.last).text, HasSubstr("are damaged"));
}

}  // namespace sluice::centre_test
