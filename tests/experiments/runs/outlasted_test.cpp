// At a run's end a block takes what its neighbours still send, which is not
// needed: unopened, for of what lies on a GPU the memory may go with its
// sender.
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "experiments/runs/seats/assembly.h"
#include "lib/base/messages/channel_around.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::outlasted_test {

struct ReceiveCount {
  int received = 0;
  int discarded = 0;
};

class CountedReceiver final : public ReceiverAround {
 public:
  CountedReceiver(std::unique_ptr<Receiver> channel, ReceiveCount& taken)
      : ReceiverAround(std::move(channel)), taken_(taken) {}
  std::optional<Message> receive() override {
    ++taken_.received;
    return inner().receive();
  }
  bool discard() override {
    const bool is_there = inner().discard();
    taken_.discarded += is_there ? 1 : 0;
    return is_there;
  }

 private:
  ReceiveCount& taken_;
};

TEST(WhatNobodyNeeds, IsDiscardedUnopened) {
  const Experiment experiment = small_experiment(
      "blocks = 2\nmodel = {hidden = [24, 20]}\n"
      "boundary = {policy = 'backprop'}\n");
  ReceiveCount taken;
  std::vector<Ends> ends = memory_ends(experiment);
  Link neighbour = std::move(ends.at(1).below);
  ends.at(0).above.receiver = std::make_unique<CountedReceiver>(
      std::move(ends.at(0).above.receiver), taken);
  const std::unique_ptr<Seat> seat =
      make_seat(experiment, 1, std::move(ends.at(0)), nullptr, {});
  neighbour.sender->send({.kind = MessageKind::gradient});
  neighbour.sender->close();
  seat->ports().close();
  seat->ports().outlast_neighbours();
  EXPECT_EQ(taken.discarded, 1);
  EXPECT_EQ(taken.received, 0);
}

}  // namespace sluice::outlasted_test
