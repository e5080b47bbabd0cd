#include "experiments/runs/ranks/ended_call.h"

#include <chrono>
#include <cstdint>
#include <future>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "lib/metrics/time_spent.h"
#include "transport/links/hello.h"
#include "transport/links/io_thread.h"
#include "transport/links/tcp.h"
#include "transport/meeting/meeting.h"
#include "transport/meeting/transports.h"

namespace sluice::ended_call_test {

using testing::HasSubstr;
using testing::ThrowsMessage;
using namespace std::chrono_literals;

constexpr double kSoon = 30;  // s: a busy machine takes its time

class EndedCall : public testing::Test {
 protected:
  static Rank rank(int number) {
    return {
        .starter = "torchrun",
        .number = number,
        .count = 3,
        .one_host = false,
        .master = fmt::format("127.0.0.1:{}", 20'000 + ::getpid() % 20'000)};
  }

  std::future<void> rank_0_refuses(Deadline patience) {
    return std::async(std::launch::async, [this, patience] {
      refuse_callers(rank(0), secret_, "rank 0 has ended: no GPU", patience);
    });
  }

  /// What a rank does that has nothing to say, and wants to join.
  void join_as(int number) {
    wait_for_listener(rank(number).master, 60s);
    IoThread io;
    const auto block = static_cast<std::uint32_t>(number + 1);
    Meeting meeting(io, transport_of("tls"),
                    {.identity = {.secret = secret_, .from = block}});
    meeting.call(rank(number).master,
                 {.from = block, .to = 0, .blocks = 3, .run = "terms"});
    meeting.wait_for(0, std::chrono::steady_clock::now() + 60s);
  }

  const Secret secret_ = make_secret();
};

TEST_F(EndedCall, EndedCallOfRank0AnswersEachCallerAndEndsWithTheLast) {
  const auto begun = std::chrono::steady_clock::now();
  std::future<void> rank_0 = rank_0_refuses(600s);
  const auto why =
      ThrowsMessage<Disagreement>(HasSubstr("rank 0 has ended: no GPU"));
  EXPECT_THAT([&] { join_as(2); }, why);
  EXPECT_EQ(rank_0.wait_for(200ms), std::future_status::timeout)
      << "rank 1 has not called yet";
  EXPECT_THAT([&] { join_as(1); }, why);
  rank_0.get();
  EXPECT_LT(seconds_since(begun), kSoon);
}

TEST_F(EndedCall, EndedCallOfAllRanksKeepsNoneOfThem) {
  const auto begun = std::chrono::steady_clock::now();
  std::future<void> rank_0 = rank_0_refuses(600s);
  for (const int number : {1, 2})
    call_with_reason(rank(number), secret_, "no GPU here either", 600s);
  rank_0.get();
  EXPECT_LT(seconds_since(begun), kSoon);
}

TEST_F(EndedCall, GivesUpWhereNobodyIs) {
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_NO_THROW(refuse_callers(rank(0), secret_, "no GPU", 100ms));
  EXPECT_NO_THROW(call_with_reason(rank(1), secret_, "no GPU", 100ms));
  EXPECT_GE(seconds_since(begun), 0.2);
  EXPECT_LT(seconds_since(begun), kSoon);
}

}  // namespace sluice::ended_call_test
