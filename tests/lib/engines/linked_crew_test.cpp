// The crew's end of control links: grants, failures, clocks, and who is judged.
#include "lib/engines/linked_crew.h"

#include <atomic>
#include <cmath>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/base/messages/memory_channel.h"
#include "lib/metrics/clock_offset.h"
#include "lib/metrics/records.h"

namespace sluice::linked_crew_test {

using std::chrono::milliseconds;
using testing::ElementsAre;

/// Control links of so many blocks, and their other ends.
class Ends {
 public:
  explicit Ends(int blocks) {
    for (int block = 1; block <= blocks; ++block) {
      auto [worker, crew] =
          memory_link(16, 16, std::chrono::seconds(20), "control link");
      workers.push_back(std::move(worker));
      crews.push_back(std::move(crew));
    }
  }
  std::vector<Link> workers;
  std::vector<Link> crews;
};

Grant turn(std::int64_t t) {
  return {.first_turn = t, .end_turn = t + 1};
}

Grant last_turn(std::int64_t t) {
  Grant grant = turn(t);
  grant.finish = true;
  return grant;
}

std::int64_t first_turn_taken(const Link& worker) {
  return said_in<Grant>(*worker.receiver->receive()).first_turn;
}

Message clock_answer(double ahead) {
  return control_message(MessageKind::clock,
                         ClockAnswer{steady_seconds() + ahead});
}

void say_reached(const Link& worker) {
  worker.sender->send({.kind = MessageKind::reached});
}

void say_failed(const Link& worker, Cause cause, const std::string& text) {
  worker.sender->send(
      control_message(MessageKind::failure, Failure{1, cause, text}));
  worker.sender->close();
}

TEST(LinkedCrew, HandsOutNoMoreGrantsThanShallLieReady) {
  Ends ends(1);
  LinkedCrew crew(std::move(ends.crews), {}, 1);
  for (int t = 0; t < 4; ++t) crew.give(turn(t));
  EXPECT_EQ(first_turn_taken(ends.workers[0]), 0);
  EXPECT_EQ(first_turn_taken(ends.workers[0]), 1);
  EXPECT_FALSE(ends.workers[0].receiver->ready());
  say_reached(ends.workers[0]);
  crew.wait();
  EXPECT_EQ(first_turn_taken(ends.workers[0]), 2);
  EXPECT_FALSE(ends.workers[0].receiver->ready());
}

TEST(LinkedCrew, KeepsAGrantForABlockThatIsSlow) {
  Ends ends(2);
  LinkedCrew crew(std::move(ends.crews), {}, 0);
  for (int t = 0; t < 2; ++t) crew.give(turn(t));
  say_reached(ends.workers[0]);
  crew.wait();
  crew.give(turn(2));
  EXPECT_EQ(crew.progress().fastest, 1U);
  EXPECT_EQ(crew.progress().slowest, 0U);
  say_reached(ends.workers[1]);
  crew.wait();
  EXPECT_EQ(first_turn_taken(ends.workers[1]), 0);
  EXPECT_EQ(first_turn_taken(ends.workers[1]), 1);
}

TEST(LinkedCrew, AsksNobodyForTheTimeWhenAWorkerHasFailed) {
  Ends ends(2);
  ProgressBoard board(2, milliseconds(1000));
  LinkedCrew crew(std::move(ends.crews), {}, 1, {.board = &board});
  crew.give(turn(0));
  say_failed(ends.workers[0], Cause::own, "it is broken");
  ends.workers[1].sender->send(clock_answer(0));
  ends.workers[1].sender->close();
  EXPECT_THROW(crew.wait(), UserError);
}

TEST(LinkedCrew, TellsWhichBlockHasReachedWhat) {
  Ends ends(2);
  std::vector<std::pair<int, std::size_t>> told;
  LinkedCrew crew(std::move(ends.crews),
                  {.reached =
                       [&](int block, std::size_t n) {
                         told.push_back({block, n});
                       }},
                  1);
  crew.give(turn(0));
  crew.give(last_turn(1));
  for (const int k : {1, 0, 0, 1}) {
    say_reached(ends.workers[static_cast<std::size_t>(k)]);
    crew.wait();
  }
  using Pair = std::pair<int, std::size_t>;
  EXPECT_THAT(told,
              ElementsAre(Pair(2, 0), Pair(1, 0), Pair(1, 1), Pair(2, 1)));
  EXPECT_TRUE(crew.has_ended());
}

TEST(LinkedCrew, BringsBatchesToTheFirstBlockAlone) {
  Ends ends(2);
  LinkedCrew crew(std::move(ends.crews), {}, 1);
  const Batch batch{7, at::rand({3, 2}), at::zeros({3}, at::kLong)};
  crew.give(turn(7), &batch);
  const auto brought = batch_of(*ends.workers[0].receiver->receive());
  ASSERT_TRUE(brought);
  EXPECT_EQ(brought->index, 7);
  EXPECT_TRUE(brought->inputs.equal(batch.inputs));
  EXPECT_FALSE(batch_of(*ends.workers[1].receiver->receive()));
}

TEST(LinkedCrew, ThrowsTheFailureThatCausedTheOthers) {
  Ends ends(2);
  say_failed(ends.workers[0], Cause::peer_gone, "the neighbour is gone");
  say_failed(ends.workers[1], Cause::own, "the disk is full");
  LinkedCrew crew(std::move(ends.crews), {}, 1);
  crew.give(turn(0));
  EXPECT_THAT([&] { crew.wait(); },
              testing::ThrowsMessage<UserError>("block 2: the disk is full"));
}

TEST(LinkedCrew, TellsTheLinkThatBrokeNotThatSomebodyWent) {
  Ends ends(2);
  say_failed(ends.workers[0], Cause::peer_gone, "nobody is there");
  say_failed(ends.workers[1], Cause::link, "it is gone, says a damaged frame");
  LinkedCrew crew(std::move(ends.crews), {}, 1);
  crew.give(turn(0));
  EXPECT_THROW(crew.wait(), LinkError);
  EXPECT_EQ(crew.failed_block(), 2);
}

/// What is said of the second of two blocks that is gone, where the first one
/// has found that out, before its link ends or after.
std::string text_of_the_end(bool is_link_first) {
  Ends ends(2);
  LinkedCrew crew(std::move(ends.crews), {}, 1);
  crew.give(turn(0));
  const auto go = [&] { ends.workers[1] = {}; };
  const auto tell = [&] {
    say_failed(ends.workers[0], Cause::peer_gone, "block 2 is gone, it seems");
  };
  // The launcher waits between the two.
  std::jthread events([&, first = is_link_first] {
    if (first) go();
    if (!first) tell();
    std::this_thread::sleep_for(milliseconds(20));
    if (first) tell();
    if (!first) go();
  });
  try {
    crew.wait();
  } catch (const LinkError& error) {
    EXPECT_EQ(crew.failed_block(), 2);
    return error.what();
  }
  return "nothing";
}

TEST(LinkedCrew, NamesABlockThatIsGoneBeforeOnesThatMissIt) {
  const std::string text = text_of_the_end(true);
  EXPECT_THAT(text, testing::HasSubstr("the sender is gone"));
  EXPECT_EQ(text_of_the_end(false), text);
}

TEST(LinkedCrew, ReportsAWorkerThatEndsEarly) {
  Ends ends(1);
  ends.workers[0].sender->close();
  LinkedCrew crew(std::move(ends.crews), {}, 1);
  crew.give(turn(0));
  EXPECT_THROW(crew.wait(), LinkError);
}

TEST(LinkedCrew, EndsTheOthersWhenOneFails) {
  Ends ends(2);
  LinkedCrew crew(std::move(ends.crews), {}, 1);
  crew.give(turn(0));
  say_failed(ends.workers[0], Cause::own, "the disk is full");
  auto other = std::async(std::launch::async, [&] {
    while (ends.workers[1].receiver->receive()) continue;
    ends.workers[1] = {};
  });
  EXPECT_THROW(crew.wait(), UserError);
}

// An exception on its own side is a failure of the block whose record it was.
TEST(LinkedCrew, NamesTheBlockWhoseRecordCouldNotBeWritten) {
  Ends ends(1);
  LinkedCrew crew(
      std::move(ends.crews),
      {.record = [](const Record&) { throw UserError("the disk is full"); }},
      1);
  crew.give(turn(0));
  ends.workers[0].sender->send(record_message({}));
  EXPECT_THAT([&] { crew.wait(); },
              testing::ThrowsMessage<UserError>("block 1: the disk is full"));
}

TEST(LinkedCrew, JudgesNobodyBeforeItHasTakenWhatWasSaid) {
  Ends ends(1);
  ProgressBoard board(1);
  int records = 0;
  std::vector<int> seen;
  const auto look = [&] {
    seen.push_back(records);
    if (seen.size() == 1) say_reached(ends.workers[0]);
    return milliseconds(1);
  };
  LinkedCrew crew(std::move(ends.crews),
                  {.record = [&](const Record&) { ++records; }}, 1,
                  {.board = &board, .look = look});
  for (int i = 0; i < ClockExchange::kQuestions; ++i)
    ends.workers[0].sender->send(clock_answer(0));
  for (int i = 0; i < 3; ++i) ends.workers[0].sender->send(record_message({}));
  crew.give(turn(0));
  crew.wait();
  EXPECT_THAT(seen, ElementsAre(4));  // the clock's is one
}

/// Whether the second of two replicas is taken out when it fails so, while the
/// first makes no progress.
bool is_taken_out(Cause cause, Deadline first_stalls) {
  Ends ends(2);
  ProgressBoard board(2);
  bool is_lost = false;
  LinkedCrew crew(
      std::move(ends.crews),
      {.lost = [&](const LostReplica& lost) { is_lost = lost.replica == 2; }},
      1, {.board = &board, .survives_loss = true, .first_stalls = first_stalls},
      {.depth = 1, .replicas = 2});
  ends.workers[0].sender->send(
      control_message(MessageKind::progress, Progress{}));
  ends.workers[0].sender->close();
  say_failed(ends.workers[1], cause, "it has waited in vain");
  crew.give(turn(0));
  try {
    crew.wait();
    EXPECT_TRUE(is_lost);
  } catch (const LinkError& error) {
    EXPECT_STREQ(error.what(), "block 1 of replica 2: it has waited in vain");
  }
  return is_lost;
}

TEST(LinkedCrew, LosesNoReplicaThatGaveUpTheFirstOneWhichHangs) {
  EXPECT_FALSE(is_taken_out(Cause::link, milliseconds(0)));
  EXPECT_TRUE(is_taken_out(Cause::link, std::chrono::hours(1)));
  EXPECT_TRUE(is_taken_out(Cause::peer_gone, milliseconds(0)));
}

/// How the signs of a lost replica of two blocks come: its second block's link
/// ends, its first block reports that, and the process of the second is seen to
/// have ended.
struct Signs {
  bool is_link_first = true;
  bool is_signal_known = true;
};

/// Why the second of two replicas is lost.
std::string reason_of_loss(const Signs& signs) {
  Ends ends(4);
  ProgressBoard board(4);
  std::string reason;
  std::atomic<bool> has_ended = false;
  Supervision supervision{.board = &board, .survives_loss = true};
  if (signs.is_signal_known)
    supervision.how_ended = [&](int seat) -> std::string {
      return seat == 4 && has_ended ? "it was ended by signal 9" : "";
    };
  LinkedCrew crew(
      std::move(ends.crews),
      {.lost = [&](const LostReplica& lost) { reason = lost.reason; }}, 1,
      std::move(supervision), {.depth = 2, .replicas = 2});
  crew.give(last_turn(0));
  for (const Link& worker : ends.workers)
    worker.sender->send(control_message(MessageKind::progress, Progress{}));
  std::jthread events([&] {
    if (signs.is_link_first) ends.workers[3] = {};
    std::this_thread::sleep_for(milliseconds(20));
    try {
      say_failed(ends.workers[2], Cause::peer_gone, "block 2 is gone, I think");
    } catch (const LinkError&) {  // the replica is lost already
    }
    std::this_thread::sleep_for(milliseconds(20));
    if (!signs.is_link_first) ends.workers[3] = {};
    std::this_thread::sleep_for(milliseconds(20));
    has_ended = true;
  });
  while (reason.empty()) crew.wait();
  return reason;
}

TEST(LinkedCrew, SaysOneReasonForALossInWhateverOrderItsSignsCome) {
  for (const bool is_link_first : {false, true}) {
    EXPECT_EQ(reason_of_loss({.is_link_first = is_link_first}),
              "it was ended by signal 9");
    EXPECT_THAT(reason_of_loss(
                    {.is_link_first = is_link_first, .is_signal_known = false}),
                testing::HasSubstr("the sender is gone"));
  }
}

/// Answers with a clock that is ahead, then stops.
void tell_time(Link link, double ahead) {
  for (int i = 0; i < ClockExchange::kQuestions; ++i) {
    EXPECT_EQ(link.receiver->receive()->kind, MessageKind::clock);
    link.sender->send(clock_answer(ahead));
  }
  link.sender->close();
}

ClockOffset offset_of_worker(double ahead) {
  Ends ends(1);
  ClockOffset offset;
  std::jthread thread(tell_time, std::move(ends.workers[0]), ahead);
  ProgressBoard board(1);
  LinkedCrew crew(std::move(ends.crews),
                  {.record =
                       [&](const Record& record) {
                         const auto clock = record.as<records::ClockOffset>();
                         offset = {clock->offset_s, clock->uncertainty_s};
                       }},
                  1, {.board = &board});
  crew.give(turn(0));
  EXPECT_THROW(crew.wait(), LinkError);
  return offset;
}

TEST(LinkedCrew, MeasuresByHowMuchAWorkersClockIsAhead) {
  for (const double ahead : {3600.0, -0.5}) {
    const ClockOffset clock = offset_of_worker(ahead);
    EXPECT_LT(clock.uncertainty, 0.1);
    EXPECT_NEAR(clock.offset, ahead, clock.uncertainty);
    EXPECT_EQ(clock.correction(), clock.offset);
  }
}

TEST(LinkedCrew, CorrectsNoClockThatItShares) {
  const ClockOffset clock = offset_of_worker(0);
  EXPECT_LE(std::abs(clock.offset), clock.uncertainty);
  EXPECT_EQ(clock.correction(), 0);
}

}  // namespace sluice::linked_crew_test
