#include "lib/base/dealt_link.h"

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "lib/base/error.h"

namespace sluice {
namespace {

/// Whose turn it is.
class DealOrder {
 public:
  explicit DealOrder(std::vector<std::size_t> peers)
      : peers_(std::move(peers)) {}
  std::size_t now() const { return peers_[next_]; }
  void passed(MessageKind kind) {
    if (kind != MessageKind::evaluation) next_ = (next_ + 1) % peers_.size();
  }

 private:
  std::vector<std::size_t> peers_;
  std::size_t next_ = 0;
};

class DealtSender final : public Sender {
 public:
  DealtSender(std::vector<std::unique_ptr<Sender>> peers, DealOrder order)
      : peers_(std::move(peers)), order_(std::move(order)) {}

  void send(Message message) override {
    const MessageKind kind = message.kind;
    peers_[order_.now()]->send(std::move(message));
    order_.passed(kind);
  }
  bool ready() const override { return peers_[order_.now()]->ready(); }
  void ring(std::shared_ptr<Bell> bell) override {
    for (const auto& peer : peers_) peer->ring(bell);
  }
  void close() override {
    for (const auto& peer : peers_) peer->close();
  }

 private:
  std::vector<std::unique_ptr<Sender>> peers_;
  DealOrder order_;
};

class DealtReceiver final : public Receiver {
 public:
  DealtReceiver(std::vector<std::unique_ptr<Receiver>> peers, DealOrder order)
      : peers_(std::move(peers)), order_(std::move(order)) {}

  std::optional<Message> receive() override {
    std::optional<Message> message = now().receive();
    if (message) order_.passed(message->kind);
    return message;
  }
  /// Of any: whoever discards asks until all have closed.
  bool discard() override {
    discards_ = true;
    for (; ended_ < peers_.size(); ++ended_)
      if (peers_[ended_]->discard()) return true;
    return false;
  }
  bool ready() const override {
    return discards_ && ended_ < peers_.size() ? peers_[ended_]->ready()
                                               : now().ready();
  }
  std::optional<MessageHead> next() const override { return now().next(); }
  std::optional<std::chrono::steady_clock::time_point> next_arrived()
      const override {
    return now().next_arrived();
  }
  void ring(std::shared_ptr<Bell> bell) override {
    for (const auto& peer : peers_) peer->ring(bell);
  }
  std::size_t waiting_bytes() const override {
    std::size_t bytes = 0;
    for (const auto& peer : peers_) bytes += peer->waiting_bytes();
    return bytes;
  }

 private:
  Receiver& now() const { return *peers_[order_.now()]; }

  std::vector<std::unique_ptr<Receiver>> peers_;
  DealOrder order_;
  bool discards_ = false;
  std::size_t ended_ = 0;  // peers of which all was discarded
};

}  // namespace

Link dealt_link(std::vector<Link> links,
                const std::vector<std::size_t>& order) {
  SLUICE_CHECK(!links.empty() && !order.empty(), "a link to nobody");
  std::vector<std::unique_ptr<Sender>> senders;
  std::vector<std::unique_ptr<Receiver>> receivers;
  for (Link& link : links) {
    senders.push_back(std::move(link.sender));
    receivers.push_back(std::move(link.receiver));
  }
  return {
      std::make_unique<DealtSender>(std::move(senders), DealOrder(order)),
      std::make_unique<DealtReceiver>(std::move(receivers), DealOrder(order))};
}

}  // namespace sluice
