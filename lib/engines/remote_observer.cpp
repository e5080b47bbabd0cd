#include "lib/engines/remote_observer.h"

#include <utility>

#include "lib/base/error.h"
#include "lib/engines/control.h"
#include "lib/tensors/pack.h"
#include "lib/tensors/staged_sender.h"

namespace sluice {
namespace {

void add(const NamedTensors& tensors, Message& message) {
  for (const auto& [name, tensor] : tensors)
    message.tensors.push_back(staged(view_of(tensor, name)));
}

class RemoteObserver final : public Observer {
 public:
  RemoteObserver(Sender& control, std::int64_t every)
      : control_(control), every_(every) {}

  bool watches(std::int64_t turn) const override { return turn % every_ == 0; }

  void before_turn(int block, std::int64_t phase, std::int64_t turn,
                   NamedTensors weights) override {
    Record record;
    record.set("block", std::int64_t{block});
    record.set("phase", phase);
    record.set("turn", turn);
    send(record, weights);
  }

  void applied(Application application) override {
    Record record;
    record.set("block", std::int64_t{application.block});
    record.set("phase", application.phase);
    record.set("turn", application.turn);
    record.set("batch", application.batch);
    send(record, application.gradients);
  }

 private:
  void send(const Record& record, const NamedTensors& tensors) {
    Message message = control_message(MessageKind::observation, record);
    add(tensors, message);
    control_.send(std::move(message));
  }

  Sender& control_;
  std::int64_t every_;
};

}  // namespace

std::shared_ptr<Observer> remote_observer(Sender& control, std::int64_t every) {
  return std::make_shared<RemoteObserver>(control, every);
}

void tell(const Message& message, Observer& observer) {
  const Record record = record_of(message);
  NamedTensors tensors;
  for (std::size_t i = 1; i < message.tensors.size(); ++i)
    tensors.emplace_back(message.tensors[i].name,
                         tensor_of(message.tensors[i]));
  const auto block = static_cast<int>(record.integer("block"));
  if (record.find("batch") == nullptr)
    observer.before_turn(block, record.integer("phase"), record.integer("turn"),
                         std::move(tensors));
  else
    observer.applied({.block = block,
                      .phase = record.integer("phase"),
                      .turn = record.integer("turn"),
                      .batch = record.integer("batch"),
                      .gradients = std::move(tensors)});
}

}  // namespace sluice
