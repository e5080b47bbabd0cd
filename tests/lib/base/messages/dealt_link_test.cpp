#include "lib/base/messages/dealt_link.h"

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "lib/base/messages/memory_channel.h"

namespace sluice::dealt_link_test {

using namespace std::chrono_literals;

/// A link dealt out to some peers, and their ends of it.
struct DealtEnds {
  explicit DealtEnds(std::size_t count, const std::vector<std::size_t>& order) {
    std::vector<Link> links;
    for (std::size_t i = 0; i < count; ++i) {
      auto [mine, its] = memory_link(8, 8, 20s);
      links.push_back(std::move(mine));
      peers.push_back(std::move(its));
    }
    link = dealt_link(std::move(links), {.order = order});
  }

  Link link;
  std::vector<Link> peers;
};

std::int64_t batch_at(Link& link) {
  return link.receiver->receive()->batch;
}

TEST(DealtLink, SendsToOneAfterTheOther) {
  DealtEnds dealt(2, {1, 0, 1});
  for (const std::int64_t batch : {0, 1, 2, 3})
    dealt.link.sender->send({.batch = batch});
  EXPECT_EQ(batch_at(dealt.peers[1]), 0);
  EXPECT_EQ(batch_at(dealt.peers[0]), 1);
  EXPECT_EQ(batch_at(dealt.peers[1]), 2);
  EXPECT_EQ(batch_at(dealt.peers[1]), 3);
  EXPECT_FALSE(dealt.peers[0].receiver->ready());
}

// As one that is continued sends again what was under way.
TEST(DealtLink, SendsByTheNumberOfTheBatch) {
  const DealOrder third{.order = {1, 0}, .members = 3};
  EXPECT_EQ(third.peer_with(2), 1U);
  EXPECT_EQ(third.peer_with(5), 0U);
  EXPECT_EQ(third.peer_with(8), 1U);
  DealtEnds dealt(2, {1, 0});
  for (const std::int64_t batch : {0, 2, 1})
    dealt.link.sender->send({.batch = batch});
  EXPECT_EQ(batch_at(dealt.peers[1]), 0);
  EXPECT_EQ(batch_at(dealt.peers[1]), 2);
  EXPECT_EQ(batch_at(dealt.peers[0]), 1);
}

TEST(DealtLink, ReceivesInThatOrderWhoeverSentFirst) {
  DealtEnds dealt(2, {0, 1});
  dealt.peers[1].sender->send({.batch = 1});
  EXPECT_FALSE(dealt.link.receiver->ready());
  EXPECT_EQ(dealt.link.receiver->next(), std::nullopt);
  dealt.peers[0].sender->send({.batch = 0});
  EXPECT_EQ(batch_at(dealt.link), 0);
  EXPECT_EQ(batch_at(dealt.link), 1);
}

TEST(DealtLink, TakesEvaluationsWhereTheOrderBeginsAndLeavesItThere) {
  DealtEnds dealt(2, {0, 1});
  const Message evaluation{.kind = MessageKind::evaluation, .batch = 7};
  dealt.link.sender->send(evaluation);
  dealt.link.sender->send({.batch = 0});
  EXPECT_EQ(batch_at(dealt.peers[0]), 7);
  EXPECT_EQ(batch_at(dealt.peers[0]), 0);
  dealt.peers[0].sender->send(evaluation);
  dealt.peers[0].sender->send({.batch = 0});
  dealt.peers[1].sender->send({.batch = 1});
  EXPECT_EQ(batch_at(dealt.link), 7);
  EXPECT_EQ(batch_at(dealt.link), 0);
  EXPECT_EQ(batch_at(dealt.link), 1);
}

TEST(DealtLink, IsDiscardedUntilAllHaveClosed) {
  DealtEnds dealt(2, {0, 1});
  dealt.peers[0].sender->send({.batch = 0});
  dealt.peers[1].sender->send({.batch = 1});
  dealt.peers[1].sender->send({.batch = 3});
  for (Link& peer : dealt.peers) peer.sender->close();
  int discarded = 0;
  while (dealt.link.receiver->discard()) ++discarded;
  EXPECT_EQ(discarded, 3);
}

TEST(DealtLink, ClosesToAll) {
  DealtEnds dealt(2, {0, 1});
  dealt.link.sender->close();
  for (Link& peer : dealt.peers)
    EXPECT_FALSE(peer.receiver->receive().has_value());
}

}  // namespace sluice::dealt_link_test
