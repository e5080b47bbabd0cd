#include "lib/base/messages/dealt_link.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "lib/base/error.h"

namespace sluice {
namespace {

class DealtSender final : public Sender {
 public:
  DealtSender(std::vector<std::unique_ptr<Sender>> peers, DealOrder order)
      : peers_(std::move(peers)), order_(std::move(order)) {}

  void send(Message message) override {
    const bool is_of_batch = message.kind != MessageKind::evaluation;
    const std::size_t peer =
        is_of_batch ? order_.peer_with(message.batch) : order_.order.front();
    peers_[peer]->send(std::move(message));
  }
  /// Ready when all peers are: the next message may go to any.
  bool ready() const override {
    return std::all_of(peers_.begin(), peers_.end(),
                       [](const auto& peer) { return peer->ready(); });
  }
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
    if (message && message->kind != MessageKind::evaluation)
      next_ = (next_ + 1) % order_.order.size();
    return message;
  }
  /// Discards a message of any peer; the caller repeats it until all have
  /// closed.
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
  Receiver& now() const { return *peers_[order_.order[next_]]; }

  std::vector<std::unique_ptr<Receiver>> peers_;
  DealOrder order_;
  std::size_t next_ = 0;
  bool discards_ = false;
  std::size_t ended_ = 0;  // peers of which all was discarded
};

}  // namespace

Link dealt_link(std::vector<Link> links, const DealOrder& order) {
  SLUICE_CHECK(!links.empty() && !order.order.empty(), "a link to nobody");
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
