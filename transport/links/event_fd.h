#pragma once

#include <chrono>

#include "transport/links/file_descriptor.h"

namespace sluice {

/// An eventfd, which wakes a thread that sleeps, of another process too. Any
/// thread may call; nothing but sleep() blocks.
class EventFd {
 public:
  /// A new one. Throws UserError when the system has none left.
  EventFd();
  /// Takes an eventfd that a peer made. Throws LinkError when it is no eventfd,
  /// or one that could block a caller of ring().
  explicit EventFd(FileDescriptor from_peer);

  void ring() const;
  /// Clears the event, so that it waits for the next ring.
  void clear() const;
  /// Sleeps until this one or `other` is rung, or the time is over.
  void sleep(const EventFd& other, std::chrono::nanoseconds at_most) const;
  int descriptor() const { return event_.get(); }
  /// Hands the descriptor over to a caller that waits for it in another way,
  /// and closes it.
  int release() { return event_.release(); }
  /// A second descriptor of the same eventfd, for such a caller. Throws
  /// UserError when the system has none left.
  FileDescriptor copy() const;

 private:
  FileDescriptor event_;
};

/// Does what clear() does, for a descriptor that was released.
void clear_bell(int descriptor);

}  // namespace sluice
