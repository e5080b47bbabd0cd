#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "lib/base/messages/bell.h"
#include "lib/base/messages/message.h"

namespace sluice {

/// The sending end of a channel: an ordered, bounded stream of messages to one
/// worker. Used by one thread at a time.
class Sender {
 public:
  virtual ~Sender() = default;
  /// Blocks while the channel is full (credits). Throws LinkError when the
  /// peer is gone or no credit came back in time. The buffers must not change
  /// any more: the channel may still be reading them.
  virtual void send(Message message) = 0;
  /// Whether send() would return, or throw, without blocking.
  virtual bool ready() const = 0;
  /// Rings the bell, from now on, when ready() may have become true.
  virtual void ring(std::shared_ptr<Bell> bell) = 0;
  /// Closes the channel: what was sent before arrives, then the receiver sees
  /// the end. Idempotent.
  virtual void close() = 0;
};

/// Batch, kind and round of a message: what identifies it.
struct MessageHead {
  MessageKind kind = MessageKind::activation;
  std::int64_t batch = 0;
  std::int64_t round = 0;

  bool operator==(const MessageHead&) const = default;
};

/// The receiving end. Used by one thread at a time. Destroying it with unread
/// messages returns at once.
class Receiver {
 public:
  virtual ~Receiver() = default;
  /// The next message in the order in which they were sent, or nothing when
  /// the sender closed and all was read. Blocks; throws LinkError when the peer
  /// died or the channel's deadline passed without any progress.
  virtual std::optional<Message> receive() = 0;
  /// Receives a message without its content, which isn't needed. False when
  /// receive() would give nothing.
  virtual bool discard() { return receive().has_value(); }
  /// Whether receive() would return without blocking.
  virtual bool ready() const = 0;
  /// The message that receive() would give without blocking; nothing when none
  /// is there, at the end too.
  virtual std::optional<MessageHead> next() const = 0;
  /// Arrival time in this process of the message that receive() would return;
  /// nothing when none is there.
  virtual std::optional<std::chrono::steady_clock::time_point> next_arrived()
      const = 0;
  /// Rings the bell, from now on, when ready() may have become true.
  virtual void ring(std::shared_ptr<Bell> bell) = 0;
  /// Payload of the messages that have arrived and wait.
  virtual std::size_t waiting_bytes() const = 0;
};

/// Both directions between two workers, or a worker and the coordinator.
struct Link {
  std::unique_ptr<Sender> sender = nullptr;
  std::unique_ptr<Receiver> receiver = nullptr;
};

/// How many messages the channels of a link hold before the sender waits, >= 1
/// each. The lower block sends up; a worker is below its coordinator.
struct Capacity {
  std::size_t up = 1;
  std::size_t down = 1;

  bool operator==(const Capacity&) const = default;
};

/// Fate of a training activation of a block that runs free, when the block
/// above has no time for it.
enum class SlowConsumer : std::uint8_t {
  block,        ///< it waits until there is room
  drop_oldest,  ///< a few wait to be sent; of more, the oldest is dropped
  latest        ///< only the newest waits
};

/// How long a blocked send or receive waits before it gives the peer up.
using Deadline = std::chrono::milliseconds;

}  // namespace sluice
