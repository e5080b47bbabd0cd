// A replay buffer: DGL's asynchronous form (Belilovsky et al., ICML 2020,
// arXiv:1901.08164, section 4). Evaluation batches go past it.
#include <utility>

#include "lib/base/error.h"
#include "lib/boundaries/inboxes/inbox.h"

namespace sluice {
namespace {

class BufferedInbox final : public Inbox {
 public:
  BufferedInbox(const ReplayOptions& options, int block)
      : buffer_(options), block_(block) {}

  Input input(const Action& forward, const Next& next) override {
    fill(forward.arrived, next);
    std::optional<ReplayBuffer::Use> use = buffer_.read();
    SLUICE_CHECK(use, "block {}: its replay buffer is empty in turn {}", block_,
                 forward.turn);
    const std::int64_t age = buffer_.written() - 1 - use->message.batch;
    return {std::move(use->message), age, use->reuse};
  }

  Message evaluation(std::int64_t batch, const Next& next) override {
    while (true) {
      std::optional<Message> message = next();
      if (!message)
        throw LinkError("block {}: the neighbour closed before it sent {} {}",
                        block_, name_of(MessageKind::evaluation), batch);
      if (message->kind == MessageKind::evaluation && message->batch == batch)
        return std::move(*message);
      write(std::move(*message));
    }
  }

  bool is_ready(Action& forward, const Receiver& from,
                const Next& next) override {
    while (buffer_.has_room() && has_activation(from))
      fill(buffer_.written() + 1, next);
    const bool is_gone = from.ready() && !from.next();
    if (buffer_.empty() && !is_gone) return false;
    forward.arrived = buffer_.written() + (buffer_.empty() ? 1 : 0);
    return true;
  }

  std::size_t bytes() const override { return buffer_.bytes(); }

 private:
  static bool has_activation(const Receiver& from) {
    const std::optional<MessageHead> first = from.next();
    return first && first->kind == MessageKind::activation;
  }

  void fill(std::int64_t arrived, const Next& next) {
    while (buffer_.written() < arrived) {
      std::optional<Message> message = next();
      if (!message)
        throw LinkError("block {}: the neighbour closed after {} activations",
                        block_, buffer_.written());
      write(std::move(*message));
    }
  }

  void write(Message message) {
    SLUICE_CHECK(message.kind == MessageKind::activation,
                 "block {} expected an activation, got {} {}", block_,
                 name_of(message.kind), message.batch);
    buffer_.write(std::move(message));
  }

  ReplayBuffer buffer_;
  int block_;
};

}  // namespace

std::unique_ptr<Inbox> make_inbox(const InboxTraits& traits, int block) {
  if (!traits.buffer) return nullptr;
  return std::make_unique<BufferedInbox>(*traits.buffer, block);
}

}  // namespace sluice
