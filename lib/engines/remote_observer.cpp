#include "lib/engines/remote_observer.h"

#include <utility>

#include "lib/base/error.h"
#include "lib/engines/control.h"
#include "lib/tensors/gpu/staged_sender.h"
#include "lib/tensors/pack.h"

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

  void before_turn(int block, int replica, std::int64_t phase,
                   std::int64_t turn, NamedTensors weights) override {
    send({.block = block, .replica = replica, .phase = phase, .turn = turn},
         weights);
  }

  void applied(Application application) override {
    send({.block = application.block,
          .replica = application.replica,
          .phase = application.phase,
          .turn = application.turn,
          .batch = application.batch,
          .source_batch = application.source_batch,
          .exchanged = application.exchanged},
         application.gradients);
  }

 private:
  void send(const Observation& seen, const NamedTensors& tensors) {
    Message message = control_message(MessageKind::observation, seen);
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
  const auto seen = said_in<Observation>(message);
  NamedTensors tensors;
  for (std::size_t i = 1; i < message.tensors.size(); ++i)
    tensors.emplace_back(message.tensors[i].name,
                         tensor_of(message.tensors[i]));
  if (!seen.batch)
    observer.before_turn(seen.block, seen.replica, seen.phase, seen.turn,
                         std::move(tensors));
  else
    observer.applied({.block = seen.block,
                      .replica = seen.replica,
                      .phase = seen.phase,
                      .turn = seen.turn,
                      .batch = *seen.batch,
                      .source_batch = seen.source_batch,
                      .exchanged = seen.exchanged,
                      .gradients = std::move(tensors)});
}

}  // namespace sluice
