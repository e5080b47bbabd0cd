// The crew's end of control links: grants, failures, clocks, and who is judged.
#include "lib/engines/linked_crew.h"

#include <atomic>
#include <cmath>
#include <deque>
#include <future>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/by_block.h"
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
  crew.give(turn(7), {&batch, 1});
  const auto brought = batches_of(*ends.workers[0].receiver->receive());
  ASSERT_EQ(brought.size(), 1U);
  EXPECT_EQ(brought[0].index, 7);
  EXPECT_TRUE(brought[0].inputs.equal(batch.inputs));
  EXPECT_TRUE(batches_of(*ends.workers[1].receiver->receive()).empty());
}

/// Numbers of a turn's batches 12, 13, ... that come to each seat.
std::vector<std::vector<std::int64_t>> numbers_by_seat(const SeatNames& names,
                                                       int batches) {
  Ends ends(names.seats());
  LinkedCrew crew(std::move(ends.crews), {}, 1, {}, names);
  std::vector<Batch> turns;
  for (int i = 0; i < batches; ++i)
    turns.push_back({12 + i, at::rand({3, 2}), at::zeros({3}, at::kLong)});
  crew.give(turn(3), turns);
  std::vector<std::vector<std::int64_t>> all;
  for (const Link& worker : ends.workers) {
    all.emplace_back();
    for (const Batch& batch : batches_of(*worker.receiver->receive())) {
      EXPECT_TRUE(batch.inputs.equal(
          turns[static_cast<std::size_t>(batch.index - 12)].inputs));
      all.back().push_back(batch.index);
    }
  }
  return all;
}

TEST(LinkedCrew, DealsTheBatchesOfATurnOutToReplicas) {
  using Numbers = std::vector<std::vector<std::int64_t>>;
  EXPECT_EQ(numbers_by_seat({.depth = 2, .replicas = 3}, 3),
            Numbers({{12}, {}, {13}, {}, {14}, {}}));
  EXPECT_EQ(numbers_by_seat({.depth = 2, .replicas = 4, .counts = {2, 4}}, 4),
            Numbers({{12, 14}, {}, {13, 15}, {}, {}, {}}));
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

/// Gives the news that the test has.
class FakeNewcomers final : public Newcomers {
 public:
  void ring(std::shared_ptr<Bell> bell) override { bell_ = std::move(bell); }
  void offer(int replica) override { offered.push_back(replica); }
  void dismiss() override { is_dismissed = true; }
  std::optional<NewcomerNews> next() override {
    if (news_.empty()) return std::nullopt;
    NewcomerNews news = std::move(news_.front());
    news_.pop_front();
    return news;
  }
  void say(NewcomerNews news) {
    news_.push_back(std::move(news));
    bell_->ring();
  }
  std::vector<int> offered = {};
  bool is_dismissed = false;

 private:
  std::shared_ptr<Bell> bell_;
  std::deque<NewcomerNews> news_;
};

/// Two replicas at work, and the place of a third.
class JoinedCrew : public testing::Test {
 protected:
  using Kind = NewcomerNews::Kind;

  JoinedCrew() {
    std::vector<Link> links = std::move(ends_.crews);
    third_ = std::move(links.back());
    links.back() = {};
    crew_.emplace(
        std::move(links),
        CrewEvents{
            .reached = [&](int block, std::size_t n) { reached_[block] = n; },
            .lost = [&](const LostReplica& l) { lost_ = l.replica; },
            .joined = [&](const JoinedReplica& j) { joined_ = j; }},
        2,
        Supervision{
            .board = &board_, .survives_loss = true, .newcomers = newcomers_},
        SeatNames{.depth = 1, .replicas = 3});
    for (int seat : {1, 2}) begin(seat);
  }

  void begin(int seat) {
    const Link& worker = by_block(ends_.workers, seat);
    worker.sender->send(control_message(MessageKind::progress, Progress{}));
    for (int i = 0; i < ClockExchange::kQuestions; ++i)
      worker.sender->send(clock_answer(0));
  }
  /// The next message but for questions of the time.
  Message next_of(int seat) {
    while (true) {
      Message message = *by_block(ends_.workers, seat).receiver->receive();
      if (message.kind != MessageKind::clock) return message;
    }
  }
  void say_reached_by(std::initializer_list<int> seats) {
    for (const int seat : seats) say_reached(by_block(ends_.workers, seat));
  }
  /// Lets the crew take what there is until the seat has carried out `n`.
  void wait_for(int seat, std::size_t n) {
    while (!reached_.contains(seat) || reached_[seat] < n) crew_->wait();
  }
  void wait_for_first(std::size_t n) { wait_for(1, n); }
  /// A replica calls in the first grant, and the second is given.
  void call_from_third() {
    crew_->give(turn(0));
    say_reached_by({1, 2});
    wait_for_first(0);
    newcomers_->say({.kind = Kind::calls, .replica = 3, .address = "there"});
    crew_->give(turn(1));
  }
  void join_third() {
    std::vector<Link> links;
    links.push_back(std::move(third_));
    newcomers_->say(
        {.kind = Kind::joined, .replica = 3, .links = std::move(links)});
  }

  Ends ends_{3};
  Link third_;
  ProgressBoard board_{3};
  std::shared_ptr<FakeNewcomers> newcomers_ = std::make_shared<FakeNewcomers>();
  std::map<int, std::size_t> reached_;
  int lost_ = 0;
  std::optional<JoinedReplica> joined_;
  std::optional<LinkedCrew> crew_;
};

TEST_F(JoinedCrew, BeginsWithTheNextGrantForWhichReplica1MakesItsLinkBefore) {
  crew_->give(turn(0));
  crew_->give(turn(1));
  say_reached_by({1, 2});
  wait_for_first(0);
  EXPECT_THAT(newcomers_->offered, ElementsAre(3));
  newcomers_->say({.kind = Kind::calls, .replica = 3, .address = "there"});
  say_reached_by({1, 2});
  wait_for_first(1);
  crew_->give(turn(2));
  EXPECT_EQ(crew_->progress().slowest, 2U);
  EXPECT_EQ(said_in<Grant>(next_of(1)).first_turn, 0);
  EXPECT_EQ(said_in<Grant>(next_of(1)).first_turn, 1);
  const auto told = said_in<Newcomer>(next_of(1));
  EXPECT_EQ(told.replica, 3);
  EXPECT_EQ(told.address, "there");
  EXPECT_FALSE(said_in<Grant>(next_of(1)).joins);
  join_third();
  begin(3);
  say_reached_by({1, 2});
  wait_for_first(2);
  EXPECT_EQ(crew_->progress().slowest, 2U) << "the newcomer is still at it";
  say_reached_by({3});
  wait_for(3, 2);
  ASSERT_TRUE(joined_.has_value());
  EXPECT_EQ(joined_->first_grant, 2U);
  const auto first = said_in<Grant>(next_of(3));
  EXPECT_EQ(first.first_turn, 2);
  EXPECT_TRUE(first.joins);
  crew_->give(last_turn(3));
  say_reached_by({1, 2, 3});
  EXPECT_FALSE(said_in<Grant>(next_of(3)).joins);
  while (!crew_->has_ended()) crew_->wait();
  EXPECT_THAT(newcomers_->offered, ElementsAre(3)) << "nothing is left to do";
}

TEST_F(JoinedCrew, IsLostAsAnyOtherAndItsPlaceOfferedAgain) {
  call_from_third();
  join_third();
  ends_.workers[2] = {};
  say_reached_by({1, 2});
  wait_for_first(1);
  while (lost_ == 0) crew_->wait();
  EXPECT_EQ(lost_, 3);
  Message said = next_of(1);
  while (said.kind != MessageKind::centre) said = next_of(1);
  EXPECT_EQ(said_in<CentreNotice>(said).lost, 3) << "said to replica 1";
  crew_->give(last_turn(2));
  EXPECT_THAT(newcomers_->offered, ElementsAre(3, 3));
  say_reached_by({1, 2});
  while (!crew_->has_ended()) crew_->wait();
}

TEST_F(JoinedCrew, SendsANewcomerAwayThatReplica1DidNotMeet) {
  call_from_third();
  say_reached_by({1, 2});
  wait_for_first(1);
  crew_->give(turn(2));
  const auto missed = [&](std::int64_t life) {
    ends_.workers[0].sender->send(control_message(
        MessageKind::newcomer, Newcomer{.replica = 3, .life = life}));
  };
  missed(0);
  say_reached_by({1, 2});
  wait_for_first(2);
  EXPECT_FALSE(newcomers_->is_dismissed) << "that was another";
  crew_->give(turn(3));
  missed(1);
  say_reached_by({1, 2});
  wait_for_first(3);
  EXPECT_TRUE(newcomers_->is_dismissed);
}

TEST_F(JoinedCrew, OffersNoPlaceWhereNoneCanBeOpened) {
  call_from_third();
  newcomers_->say({.kind = Kind::closed, .replica = 3});
  for (int n = 1; n < 4; ++n) {
    say_reached_by({1, 2});
    wait_for_first(static_cast<std::size_t>(n));
    crew_->give(turn(n + 1));
  }
  EXPECT_THAT(newcomers_->offered, ElementsAre(3));
  EXPECT_EQ(crew_->progress().slowest, 4U) << "it isn't waited for";
}

TEST_F(JoinedCrew, GoesOnWithoutANewcomerThatDoesNotCome) {
  call_from_third();
  say_reached_by({1, 2});
  wait_for_first(1);
  newcomers_->say({.kind = Kind::missing, .replica = 3});
  crew_->give(turn(2));
  say_reached_by({1, 2});
  wait_for_first(2);
  EXPECT_EQ(crew_->progress().slowest, 3U);
  crew_->give(turn(3));
  say_reached_by({1, 2});
  wait_for_first(3);
  EXPECT_THAT(newcomers_->offered, ElementsAre(3, 3));
  crew_->give(last_turn(4));
  say_reached_by({1, 2});
  while (!crew_->has_ended()) crew_->wait();
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
