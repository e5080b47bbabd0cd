// Whether a rank has lost its launcher, or only another rank.
#include "experiments/runs/ranks/cut_off.h"

#include <chrono>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/base/messages/memory_channel.h"

namespace sluice::cut_off_test {

using std::chrono::milliseconds;

constexpr milliseconds kPatience(20);

/// A worker's control link, and the launcher's end of it.
std::pair<Link, Link> control_link() {
  return memory_link(4, 4, std::chrono::seconds(10), "control link");
}

std::string reason_of(const std::exception& error, const Link& worker) {
  return reason_of_end(error, *worker.receiver, kPatience);
}

TEST(CutOffRank, SaysThatItsLauncherIsGoneWhicheverLinkEndedFirst) {
  auto [worker, launcher] = control_link();
  launcher.sender->send({});
  launcher = {};
  const std::string said =
      reason_of(PeerGoneError("block 2 waited for block 1"), worker);
  EXPECT_THAT(said, testing::StartsWith("the launcher, rank 0, is gone"));
  EXPECT_EQ(reason_of(PeerGoneError("it waited for the launcher"), worker),
            said);
  EXPECT_EQ(reason_of(LinkError("a frame was damaged"), worker), said);
}

TEST(CutOffRank, SaysWhatItMissedWhereItsLauncherLives) {
  auto [worker, launcher] = control_link();
  const PeerGoneError error("block 2 waited for block 1: it is gone");
  EXPECT_EQ(reason_of(error, worker), error.what()) << "silent";
  launcher.sender->send({});
  launcher.sender->close();
  EXPECT_EQ(reason_of(error, worker), error.what()) << "closed";
}

TEST(CutOffRank, SaysWhatItsOwnWorkThrew) {
  auto [worker, launcher] = control_link();
  launcher = {};
  EXPECT_EQ(reason_of(UserError("the disk is full"), worker),
            "the disk is full");
}

}  // namespace sluice::cut_off_test
