// Notices for a centre on a control link, which overtake what waits there.
#include "lib/engines/centre_notices.h"

#include <chrono>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/base/messages/memory_channel.h"
#include "lib/engines/control.h"

namespace sluice::centre_notices_test {

using testing::ElementsAre;

class CentreNoticesOfALink : public testing::Test {
 protected:
  CentreNoticesOfALink() {
    auto [worker, crew] =
        memory_link(16, 16, std::chrono::seconds(20), "control link");
    control_ = with_notices_ahead(std::move(worker.receiver), notices_);
    crew_ = std::move(crew);
  }

  void say_lost(int replica) const {
    crew_.sender->send(
        control_message(MessageKind::centre, CentreNotice{.lost = replica}));
  }
  void give(std::int64_t turn) const {
    crew_.sender->send(grant_message({.first_turn = turn}));
  }

  std::shared_ptr<CentreNotices> notices_ = std::make_shared<CentreNotices>();
  Link crew_;
  std::unique_ptr<Receiver> control_;
};

TEST_F(CentreNoticesOfALink, ComeWhileTheWorkerTakesNothing) {
  std::promise<int> lost;
  notices_->give_to(
      [&](const CentreNotice& notice) { lost.set_value(notice.lost); });
  give(1);
  give(2);
  say_lost(3);
  EXPECT_EQ(lost.get_future().get(), 3);
  for (const std::int64_t turn : {1, 2})
    EXPECT_EQ(said_in<Grant>(*control_->receive()).first_turn, turn);
  EXPECT_FALSE(control_->ready());
}

TEST_F(CentreNoticesOfALink, ComeWhileTheWorkerWaits) {
  std::vector<int> lost;
  notices_->give_to(
      [&](const CentreNotice& notice) { lost.push_back(notice.lost); });
  auto next = std::async(std::launch::async, [&] {
    return said_in<Grant>(*control_->receive()).first_turn;
  });
  say_lost(2);
  say_lost(4);
  give(7);
  EXPECT_EQ(next.get(), 7);
  EXPECT_THAT(lost, ElementsAre(2, 4));
}

TEST_F(CentreNoticesOfALink, WaitForWhoTakesThem) {
  say_lost(2);
  give(1);
  control_->receive();
  std::vector<int> lost;
  notices_->give_to(
      [&](const CentreNotice& notice) { lost.push_back(notice.lost); });
  EXPECT_THAT(lost, ElementsAre(2));
}

TEST_F(CentreNoticesOfALink, LeaveTheEndOfTheLinkAsItIs) {
  give(1);
  crew_.sender->close();
  EXPECT_EQ(said_in<Grant>(*control_->receive()).first_turn, 1);
  EXPECT_FALSE(control_->receive());
  EXPECT_FALSE(control_->receive()) << "once more";
}

TEST_F(CentreNoticesOfALink, LeaveItsErrorAsItIs) {
  crew_ = {};
  EXPECT_THROW(control_->receive(), PeerGoneError);
  EXPECT_TRUE(control_->ready());
}

}  // namespace sluice::centre_notices_test
