#include "lib/base/messages/lossy_sender.h"

#include <utility>

#include "lib/base/error.h"

namespace sluice {

std::size_t places_at_sender(SlowConsumer policy) {
  return policy == SlowConsumer::drop_oldest ? 4 : 1;
}

LossySender::LossySender(std::unique_ptr<Sender> channel, SlowConsumer policy)
    : channel_(std::move(channel)), waiting_(policy) {
  SLUICE_CHECK(policy != SlowConsumer::block, "nothing is lost with 'block'");
}

void LossySender::send(Message message) {
  flush();
  if (message.kind != MessageKind::activation) {
    send_all();
    return channel_->send(std::move(message));
  }
  if (waiting_.empty() && channel_->ready())
    return channel_->send(std::move(message));
  if (const std::optional<Message> lost = waiting_.enter(std::move(message)))
    dropped_.push_back(lost->batch);
}

void LossySender::ring(std::shared_ptr<Bell> bell) {
  channel_->ring(std::move(bell));
}

void LossySender::close() {
  send_all();
  channel_->close();
}

void LossySender::flush() {
  while (!waiting_.empty() && channel_->ready())
    channel_->send(waiting_.leave());
}

void LossySender::send_all() {
  while (!waiting_.empty()) channel_->send(waiting_.leave());
}

std::vector<std::int64_t> LossySender::take_dropped() {
  return std::exchange(dropped_, {});
}

}  // namespace sluice
