#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "lib/base/messages/channel.h"

namespace sluice {

/// How many training activations wait at the sender of such a boundary.
std::size_t places_at_sender(SlowConsumer policy);

/// Items that wait at a sender for room in the channel, some of which are
/// dropped: the rule of SlowConsumer by itself, for any kind of items.
template <class Item>
class WaitingRoom {
 public:
  explicit WaitingRoom(SlowConsumer policy)
      : places_(places_at_sender(policy)) {}

  /// The item comes in; of too many, the oldest is given back.
  std::optional<Item> enter(Item item) {
    items_.push_back(std::move(item));
    if (items_.size() <= places_) return std::nullopt;
    return leave();
  }
  /// The oldest goes. Only when it is not empty.
  Item leave() {
    Item first = std::move(items_.front());
    items_.pop_front();
    return first;
  }
  bool empty() const { return items_.empty(); }

 private:
  std::size_t places_;
  std::deque<Item> items_;
};

/// The sending end of a boundary whose block above may be slow: training
/// activations for which the channel has no room wait here, and too many of
/// them are dropped. Nothing that has reached the channel is dropped, nor
/// anything else than activations, nor the last activation before something
/// else: those block as the channel does. Used by one thread at a time.
class LossySender final : public Sender {
 public:
  /// policy: not `block`.
  LossySender(std::unique_ptr<Sender> channel, SlowConsumer policy);

  void send(Message message) override;
  bool ready() const override { return true; }
  void ring(std::shared_ptr<Bell> bell) override;
  /// Blocks until all that waits has gone to the channel.
  void close() override;

  /// Sends what waits into the channel, as far as there is room: to be called
  /// when the bell has been rung.
  void flush();
  /// The batches that were dropped since the last call.
  std::vector<std::int64_t> take_dropped();

 private:
  void send_all();

  std::unique_ptr<Sender> channel_;
  WaitingRoom<Message> waiting_;
  std::vector<std::int64_t> dropped_;
};

}  // namespace sluice
