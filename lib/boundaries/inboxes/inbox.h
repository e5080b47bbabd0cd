#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "lib/base/messages/channel.h"
#include "lib/base/messages/message.h"
#include "lib/schedules/plan/action.h"
#include "lib/schedules/plan/inbox.h"

namespace sluice {

/// Store between a block's channel from below and its forwards: it holds the
/// tensors, InboxTraits are its rule. One thread uses it.
class Inbox {
 public:
  /// Waits for the next message from below; nothing when there will be none.
  using Next = std::function<std::optional<Message>()>;

  struct Input {
    Message message;
    /// Age of a replayed batch: the number of batches that were written after
    /// it.
    std::int64_t age = 0;
    std::int64_t reuse = 0;  ///< how often it was taken before
  };

  virtual ~Inbox() = default;
  /// The input of a training forward, with how much has come before it. Throws
  /// LinkError when the neighbour closed too early.
  virtual Input input(const Action& forward, const Next& next) = 0;
  /// The evaluation batch, which lies behind all that was forwarded before it.
  virtual Message evaluation(std::int64_t batch, const Next& next) = 0;
  /// Takes what has come and finds room. Whether there is an input for a
  /// forward, or never will be one; sets how much has come in the action.
  virtual bool is_ready(Action& forward, const Receiver& from,
                        const Next& next) = 0;
  virtual std::size_t bytes() const = 0;
};

/// Makes the inbox at the boundary below the block; nullptr: the block takes
/// messages straight from the channel.
std::unique_ptr<Inbox> make_inbox(const InboxTraits& traits, int block);

}  // namespace sluice
