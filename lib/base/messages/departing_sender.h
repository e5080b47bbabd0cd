#pragma once

#include <memory>

#include "lib/base/messages/channel.h"

namespace sluice {

/// A sender whose caller doesn't wait until the bytes of a message are there
/// (Buffer::wait_ready): such a message leaves from a thread of this sender,
/// in its turn, and so do those after it. Others are sent at once, by the
/// caller. Two messages wait to leave at most; send() blocks meanwhile. What
/// goes wrong on the thread is thrown by the next send(). Closing doesn't wait;
/// destroying waits until what was sent before a close() is under way, and
/// drops what was not closed.
///
/// `patience`: how long the thread looks whether the channel has room before it
/// waits for it as the channel does, which can't be interrupted.
std::unique_ptr<Sender> departing_sender(std::unique_ptr<Sender> channel,
                                         Deadline patience);

}  // namespace sluice
