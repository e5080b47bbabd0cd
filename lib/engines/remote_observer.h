#pragma once

#include <memory>

#include "lib/base/messages/channel.h"
#include "lib/boundaries/observer.h"

namespace sluice {

/// An observer in another process: what it would see goes over the worker's
/// control link. It watches every `every` turns.
std::shared_ptr<Observer> remote_observer(Sender& control, std::int64_t every);

/// The other side: tells the observer what a message of kind `observation`
/// says. Throws LinkError when it says nothing.
void tell(const Message& message, Observer& observer);

}  // namespace sluice
