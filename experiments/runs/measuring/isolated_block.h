#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "experiments/config/experiment.h"
#include "lib/base/buffer.h"
#include "lib/base/messages/channel.h"
#include "lib/base/messages/message.h"
#include "lib/metrics/records.h"
#include "lib/workers/seat.h"

namespace sluice {

/// One block between neighbours that are made up: activations are those that it
/// is given, gradients are zeros. What they send lies in memory that is charged
/// to it, as messages of another process do. Several may act at the same time,
/// each used by one thread at a time.
class IsolatedBlock {
 public:
  /// `activation`: what the block below sends; none below block 1. The
  /// experiment must outlive it.
  IsolatedBlock(const Experiment& experiment, int block,
                std::optional<Message> activation);

  int block() const { return block_; }
  void start();
  /// The next action of its schedule. Returns the seconds that it took.
  double act(const Action& action);
  void finish();

  /// The message that the block sent up for its first batch, for the next
  /// block's rehearsal.
  const std::optional<Message>& sent_up() const { return sent_up_; }
  /// Costs of the block; known after finish().
  const records::Block& costs() const;
  /// Bytes of a centre, as Seat::bytes_of_centre().
  std::int64_t bytes_of_centre(int members) const {
    return worker_->bytes_of_centre(members);
  }

 private:
  class CostsOfBlock;

  const RunPlan& plan() const { return experiment_.plans.front(); }
  void supply(const Action& action);
  void give(Sender& to, const Message& message, std::int64_t batch,
            std::int64_t round = 0) const;
  const Message& gradient();
  void take_away();

  const Experiment& experiment_;
  int block_;
  std::optional<Message> activation_;
  BufferSource buffers_;
  Link below_;  // the neighbours' ends
  Link above_;
  std::shared_ptr<CostsOfBlock> sink_;
  std::unique_ptr<Seat> worker_;
  std::optional<Message> sent_up_;
  Message gradient_;
  std::int64_t arrived_ = 0;
};

}  // namespace sluice
