#include "experiments/api/linked_crew.h"

#include <algorithm>
#include <utility>

#include "lib/base/error.h"
#include "lib/engines/control.h"
#include "lib/tensors/pack.h"
#include "lib/tensors/staged_sender.h"

namespace sluice {
namespace {

/// A grant's message with the batch of its turn.
Message message_of(const Grant& grant, const Batch* batch) {
  Message message = control_message(MessageKind::grant, to_record(grant));
  if (!batch) return message;
  message.batch = batch->index;
  pack({batch->inputs}, "input", message);
  pack({batch->labels}, "label", message);
  for (TensorView& tensor : message.tensors) tensor = staged(std::move(tensor));
  return message;
}

class BatchTaker final : public Receiver {
 public:
  BatchTaker(std::unique_ptr<Receiver> control, std::shared_ptr<FedSource> into)
      : control_(std::move(control)), into_(std::move(into)) {}

  std::optional<Message> receive() override {
    std::optional<Message> message = control_->receive();
    if (!message || message->tensors.size() == 1) return message;
    into_->put({.index = message->batch,
                .inputs = unpack(*message, "input").at(0),
                .labels = unpack(*message, "label").at(0)});
    message->tensors.resize(1);
    return message;
  }
  bool ready() const override { return control_->ready(); }
  std::optional<MessageHead> next() const override { return control_->next(); }
  void ring(std::shared_ptr<Bell> bell) override {
    control_->ring(std::move(bell));
  }
  std::size_t waiting_bytes() const override {
    return control_->waiting_bytes();
  }

 private:
  std::unique_ptr<Receiver> control_;
  std::shared_ptr<FedSource> into_;
};

}  // namespace

std::size_t grants_ahead(int blocks) {
  return 4 * static_cast<std::size_t>(blocks);
}

Capacity control_capacity(int blocks) {
  // A turn's train record, lesson and "reached"; some more for a failure.
  const std::size_t down = grants_ahead(blocks) + 1;
  return {.up = 4 * down + 4, .down = down};
}

std::unique_ptr<Receiver> take_batches(std::unique_ptr<Receiver> control,
                                       std::shared_ptr<FedSource> into) {
  return std::make_unique<BatchTaker>(std::move(control), std::move(into));
}

ControlClient::ControlClient(std::vector<Link> links,
                             std::function<void(const Record&)> on_record,
                             std::function<void()> on_failure)
    : on_record_(std::move(on_record)), on_failure_(std::move(on_failure)) {
  for (Link& link : links) talks_.push_back({std::move(link)});
}

void ControlClient::give(const Grant& grant, const Batch* batch) {
  for (std::size_t k = 0; k < talks_.size(); ++k) {
    try {
      talks_[k].link.sender->send(message_of(grant, k == 0 ? batch : nullptr));
    } catch (const LinkError&) {
      take(static_cast<int>(k) + 1);  // it may have said why it ended
    }
  }
  ++given_;
}

void ControlClient::wait(std::size_t ahead) {
  for (std::size_t k = 0; k < talks_.size(); ++k) {
    Talk& talk = talks_[k];
    while (talk.reached + ahead < given_ || talk.link.receiver->ready())
      take(static_cast<int>(k) + 1);
  }
}

void ControlClient::take(int block) {
  Talk& talk = talks_[static_cast<std::size_t>(block) - 1];
  std::optional<Message> message;
  try {
    message = talk.link.receiver->receive();
  } catch (const LinkError& error) {
    fail({block, cause_of(error), error.what()});
  }
  if (!message)
    fail({block, Cause::peer_gone, "the worker ended before its work"});
  if (message->kind == MessageKind::record) {
    on_record_(record_of(*message));
  } else if (message->kind == MessageKind::reached) {
    ++talk.reached;
  } else if (message->kind == MessageKind::failure) {
    fail(failure_from(record_of(*message), block));
  }
}

/// A failure ends the others, one after another; the one that is not about a
/// link is their cause.
void ControlClient::fail(Failure failure) {
  if (on_failure_) on_failure_();
  for (Talk& talk : talks_) talk.link.sender->close();
  for (int other = 1;
       other <= std::ssize(talks_) && failure.cause != Cause::own; ++other)
    if (auto own = own_failure(other)) failure = std::move(*own);
  throw_failure(failure);
}

/// What the worker says to its end, if it failed by itself.
std::optional<Failure> ControlClient::own_failure(int block) {
  Receiver& from = *talks_[static_cast<std::size_t>(block) - 1].link.receiver;
  try {
    while (const std::optional<Message> message = from.receive()) {
      if (message->kind != MessageKind::failure) continue;
      Failure failure = failure_from(record_of(*message), block);
      if (failure.cause == Cause::own) return failure;
    }
  } catch (const LinkError&) {
    // It has ended without a word.
  }
  return std::nullopt;
}

}  // namespace sluice
