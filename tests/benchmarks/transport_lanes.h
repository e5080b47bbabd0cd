#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "transport/links/io_thread.h"

namespace sluice {

/// One process's side of a way to carry messages between two processes.
class Lane {
 public:
  virtual ~Lane() = default;
  /// A message of one tensor of so many bytes, from memory that was used
  /// before.
  virtual void send(std::size_t bytes) = 0;
  /// The next message, which has so many bytes.
  virtual void receive(std::size_t bytes) = 0;
};

struct NamedLane {
  std::string name;
  std::unique_ptr<Lane> lane;
};

/// Messages that a link holds before its sender waits.
inline constexpr std::size_t kLaneCapacity = 16;

/// No process: both ends in this one. send() copies once, receive() does
/// nothing.
std::unique_ptr<Lane> memcpy_lane();
/// Over a connected stream socket with plain blocking calls: a header of 64
/// bytes and the payload in one sendmsg(). The lane closes it.
std::unique_ptr<Lane> socket_lane(int socket);

/// The lanes through transport/, in the same order in both processes: every row
/// of transports(), then slots. The process that makes the invitation hands its
/// addresses to the one that calls join_links().
class LinkInvitation {
 public:
  explicit LinkInvitation(IoThread& io);
  ~LinkInvitation();
  LinkInvitation(const LinkInvitation&) = delete;
  LinkInvitation& operator=(const LinkInvitation&) = delete;

  std::vector<std::string> addresses() const;
  /// Waits for the other process.
  std::vector<NamedLane> accept();

 private:
  class Place;
  std::vector<std::unique_ptr<Place>> places_;
};

std::vector<NamedLane> join_links(IoThread& io,
                                  const std::vector<std::string>& addresses);

}  // namespace sluice
