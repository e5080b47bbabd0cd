// Callers that may come to a meeting, and those that are sent away.
#include "transport/meeting/meeting.h"

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "tests/transport/test_secret.h"

namespace sluice::meeting_test {

using boost::asio::local::stream_protocol;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;
using namespace std::chrono_literals;

std::chrono::steady_clock::time_point in(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

MeetingOptions options_of(std::uint32_t block) {
  return {.identity = {.secret = test_secret(), .from = block}};
}

class MeetingOfTwo : public testing::Test {
 protected:
  MeetingOfTwo() {
    folder_ = std::filesystem::temp_directory_path() / "slc-XXXXXX";
    EXPECT_NE(::mkdtemp(folder_.data()), nullptr);
  }
  ~MeetingOfTwo() override { std::filesystem::remove_all(folder_); }

  std::string listen(Meeting& meeting) {
    return meeting.listen({.folder = folder_, .name = "a"});
  }

  // A connection from outside of the run.
  stream_protocol::socket stranger() {
    stream_protocol::socket socket(context_);
    socket.connect(stream_protocol::endpoint(folder_ + "/a"));
    return socket;
  }

  // Until the meeting hangs up.
  static void wait_for_end(stream_protocol::socket& socket) {
    boost::system::error_code error;
    std::array<char, 64> bytes = {};
    while (!error) socket.read_some(boost::asio::buffer(bytes), error);
  }

  boost::asio::io_context context_;
  std::string folder_;
  IoThread io_;
};

bool closes_on_exec(Stream& stream) {
  return (::fcntl(stream.socket().native_handle(), F_GETFD) & FD_CLOEXEC) != 0;
}

// A child that kept a socket open would hide its owner's death.
TEST_F(MeetingOfTwo, MakesSocketsThatNoChildInherits) {
  Meeting called(io_, transport_of("unix"), options_of(2));
  Meeting caller(io_, transport_of("unix"), options_of(1));
  caller.call(listen(called), {.from = 1, .to = 2});
  AcceptedPeer one = called.wait_for(1, in(60s));
  EXPECT_TRUE(closes_on_exec(one.stream));
  called.greet(std::move(one.stream), {.from = 2, .to = 1});
  AcceptedPeer two = caller.wait_for(2, in(60s));
  EXPECT_TRUE(closes_on_exec(two.stream));
}

TEST_F(MeetingOfTwo, WithoutASecretIsABug) {
  EXPECT_THROW(Meeting(io_, transport_of("unix"), {}), InternalError);
}

TEST_F(MeetingOfTwo, RefusesAPeerOfAnotherSecretOnBothSides) {
  Meeting called(io_, transport_of("unix"), options_of(2));
  Meeting caller(io_, transport_of("unix"),
                 {.identity = {.secret = other_secret(), .from = 1}});
  caller.call(listen(called), {.from = 1, .to = 2});
  EXPECT_THAT([&] { caller.wait_for(2, in(60s)); },
              ThrowsMessage<LinkError>(
                  AllOf(HasSubstr("block 1 called block 2"),
                        HasSubstr("does not hold this run's secret"))));
  EXPECT_THAT([&] { called.wait_for(1, in(20ms)); },
              ThrowsMessage<LinkError>(HasSubstr("1 connection was refused")));
}

TEST_F(MeetingOfTwo, FailsAtOnceOnBothSidesWhenVersionsDontMeet) {
  MeetingOptions newer = options_of(1);
  newer.identity.versions = {8, 9};
  Meeting called(io_, transport_of("unix"), options_of(2));
  Meeting caller(io_, transport_of("unix"), newer);
  caller.call(listen(called), {.from = 1, .to = 2});
  EXPECT_THAT(
      [&] { caller.wait_for(2, in(60s)); },
      ThrowsMessage<Disagreement>(AllOf(HasSubstr("block 2 can't be talked to"),
                                        HasSubstr("but this program 8 to 9"))));
  EXPECT_THAT([&] { called.wait_for(1, in(60s)); },
              ThrowsMessage<Disagreement>(AllOf(
                  HasSubstr("block 1 can't be talked to: it speaks versions 8 "
                            "to 9"),
                  HasSubstr("the same build"))));
}

// Issue 18, item 1: what a process was started with is compared before it
// takes part.
TEST_F(MeetingOfTwo, TellsBothSidesWhyACallerMayNotTakePart) {
  MeetingOptions judging = options_of(2);
  judging.judge = [](const Hello& hello) {
    return hello.run == "seed 1" ? "" : "one has seed 1, one " + hello.run;
  };
  Meeting called(io_, transport_of("unix"), judging);
  Meeting caller(io_, transport_of("unix"), options_of(1));
  caller.call(listen(called), {.from = 1, .to = 2, .run = "seed 9"});
  const auto why =
      ThrowsMessage<Disagreement>(HasSubstr("one has seed 1, one seed 9"));
  EXPECT_THAT([&] { caller.wait_for(2, in(60s)); }, why);
  EXPECT_THAT([&] { called.wait_for(1, in(60s)); }, why);
  EXPECT_TRUE(called.has_met(1));  // no wait for it any more
}

TEST_F(MeetingOfTwo, TellsWhoComesLaterWhyThereIsNoRun) {
  Meeting called(io_, transport_of("unix"), options_of(2));
  const std::string address = listen(called);
  called.refuse_all("rank 1 has ended");
  const auto why = ThrowsMessage<Disagreement>(HasSubstr("rank 1 has ended"));
  EXPECT_THAT([&] { called.wait_for(1, in(60s)); }, why);
  Meeting caller(io_, transport_of("unix"), options_of(1));
  caller.call(address, {.from = 1, .to = 2, .run = "seed 1"});
  EXPECT_THAT([&] { caller.wait_for(2, in(60s)); }, why);
}

TEST_F(MeetingOfTwo, TellsWhoHasComeWhyThereIsNoRun) {
  Meeting called(io_, transport_of("unix"), options_of(2));
  Meeting caller(io_, transport_of("unix"), options_of(1));
  caller.call(listen(called), {.from = 1, .to = 2, .run = "seed 1"});
  called.wait_to_meet(1, in(60s));
  called.refuse_all("rank 1 has ended");
  EXPECT_THAT([&] { caller.wait_for(2, in(60s)); },
              ThrowsMessage<Disagreement>(HasSubstr("rank 1 has ended")));
}

/// A caller without the text of a run is ended by the process that started it.
TEST_F(MeetingOfTwo, TellsNobodyWhoComesWithoutARun) {
  Meeting called(io_, transport_of("unix"), options_of(2));
  const std::string address = listen(called);
  called.refuse_all("rank 1 has ended");
  Meeting caller(io_, transport_of("unix"), options_of(1));
  caller.call(address, {.from = 1, .to = 2});
  while (!called.has_met(1)) std::this_thread::yield();
  EXPECT_THAT([&] { caller.wait_for(2, in(200ms)); },
              ThrowsMessage<LinkError>(HasSubstr("did not come in time")));
}

TEST_F(MeetingOfTwo, LetsInWhomItsJudgeHasNothingAgainst) {
  MeetingOptions judging = options_of(2);
  judging.judge = [](const Hello& hello) { return hello.refusal; };
  Meeting called(io_, transport_of("unix"), judging);
  Meeting caller(io_, transport_of("unix"), options_of(1));
  caller.call(listen(called), {.from = 1, .to = 2, .run = "seed 1"});
  EXPECT_EQ(called.wait_for(1, in(60s)).hello.run, "seed 1");
  EXPECT_TRUE(called.has_met(1));
}

TEST_F(MeetingOfTwo, TellsThoseThatCameBeforeToo) {
  MeetingOptions judging = options_of(0);
  judging.judge = [](const Hello& hello) { return hello.run.substr(4); };
  Meeting launcher(io_, transport_of("unix"), judging);
  Meeting first(io_, transport_of("unix"), options_of(1));
  Meeting second(io_, transport_of("unix"), options_of(2));
  const std::string address = listen(launcher);
  first.call(address, {.from = 1, .to = 0, .run = "good"});
  while (!launcher.has_met(1)) std::this_thread::yield();
  second.call(address, {.from = 2, .to = 0, .run = "bad: of another run"});
  EXPECT_THAT([&] { first.wait_for(0, in(60s)); },
              ThrowsMessage<Disagreement>(HasSubstr("of another run")));
}

TEST_F(MeetingOfTwo, SendsAwayWhoSaysNothing) {
  MeetingOptions options = options_of(2);
  options.greeting_time = 20ms;
  Meeting called(io_, transport_of("unix"), options);
  listen(called);
  stream_protocol::socket silent = stranger();
  wait_for_end(silent);  // would hang here
  EXPECT_THAT([&] { called.wait_for(1, in(200ms)); },
              ThrowsMessage<LinkError>(
                  HasSubstr("1 connection was refused; the last one: it said "
                            "too little within 20 ms")));
}

TEST_F(MeetingOfTwo, ReadsNoHelloOfWhoHasProvedNothing) {
  Meeting called(io_, transport_of("unix"), options_of(2));
  listen(called);
  stream_protocol::socket forger = stranger();
  boost::asio::write(forger,
                     boost::asio::buffer(encode_hello({.from = 1, .to = 2})));
  wait_for_end(forger);
  EXPECT_THAT([&] { called.wait_for(1, in(20ms)); },
              ThrowsMessage<LinkError>(HasSubstr("no greeting of Sluice")));
}

TEST_F(MeetingOfTwo, CountsStrangersAndStillMeets) {
  Meeting called(io_, transport_of("unix"), options_of(2));
  Meeting caller(io_, transport_of("unix"), options_of(1));
  const std::string address = listen(called);
  std::vector<stream_protocol::socket> strangers;
  for (int i = 0; i < 100; ++i) {
    strangers.push_back(stranger());
    boost::asio::write(strangers.back(),
                       boost::asio::buffer(std::string(64, '?')));
  }
  caller.call(address, {.from = 1, .to = 2});
  EXPECT_EQ(called.wait_for(1, in(60s)).hello.from, 1u);
  EXPECT_THAT(
      [&] { called.wait_for(1, in(200ms)); },
      ThrowsMessage<LinkError>(HasSubstr("100 connections were refused")));
}

TEST_F(MeetingOfTwo, MeetsAfterTheSilentHadTheirTime) {
  MeetingOptions options = options_of(2);
  options.greeting_time = 20ms;
  Meeting called(io_, transport_of("unix"), options);
  Meeting caller(io_, transport_of("unix"), options_of(1));
  const std::string address = listen(called);
  std::vector<stream_protocol::socket> silent;
  for (int i = 0; i < 150; ++i) silent.push_back(stranger());
  caller.call(address, {.from = 1, .to = 2});
  EXPECT_EQ(called.wait_for(1, in(60s)).hello.from, 1u);
}

TEST_F(MeetingOfTwo, EndsWhileSomebodyIsSilent) {
  Meeting called(io_, transport_of("unix"), options_of(2));
  listen(called);
  stream_protocol::socket silent = stranger();
}  // the I/O thread would hang here

// The one who is sent away knows it before the one who sent it does.
TEST_F(MeetingOfTwo, MayEndWhileItSendsSomebodyAway) {
  for (int i = 0; i < 100; ++i) {
    IoThread here;
    IoThread there;
    const Session unknown = {std::byte{1}};
    Meeting caller(there, transport_of("unix"), options_of(1));
    {
      Meeting called(here, transport_of("unix"), options_of(2));
      caller.call(listen(called), {.from = 1, .to = 2, .session = unknown});
      EXPECT_THROW(caller.wait_for(2, in(60s)), LinkError);
    }
    std::filesystem::remove(folder_ + "/a");
  }
}

}  // namespace sluice::meeting_test
