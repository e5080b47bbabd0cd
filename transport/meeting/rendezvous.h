#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/files/temporary_folder.h"
#include "lib/base/messages/channel.h"
#include "transport/links/hello.h"
#include "transport/links/io_thread.h"
#include "transport/meeting/meeting.h"
#include "transport/wire/link_options.h"
#include "transport/wire/secret.h"
#include "transport/wire/shared_options.h"

namespace sluice {

/// Options of both sides of a rendezvous.
struct RendezvousOptions {
  std::uint32_t blocks = 1;
  /// Name of a block in errors of links; by default "block 2".
  std::function<std::string(std::uint32_t block)> name = block_name;
  /// Secret that all processes of the run must prove to hold; not empty.
  Secret secret = {};
  Capacity control = {};
  /// Most time until all of the workers have come.
  Deadline patience = std::chrono::minutes(1);
  /// How long a send or receive over an established link waits while nothing
  /// moves on the connection.
  Deadline deadline = std::chrono::minutes(1);
  /// Called about every 50 ms while waiting, on the waiting thread; throws when
  /// there is nothing to wait for any more (a worker died).
  std::function<void()> check = nullptr;
  /// A description of the run that a worker sends to the launcher, which
  /// answers with its own; at most kMaxRunText bytes.
  std::string run = {};
  /// Called at the launcher, on the I/O thread: returns why a block that sent
  /// `run` must not take part, or "". Where there is one, a caller may give the
  /// reason itself, as Hello::refusal: that it takes no part any more.
  std::function<std::string(std::uint32_t block, const std::string& run)>
      judge = nullptr;
  /// How long a link tries to restore a broken connection; 0: the link ends
  /// with its connection.
  Deadline reconnect = Deadline(0);
  /// Sets LinkOptions::reconnected of the link to block `to`.
  std::function<void(std::uint32_t to, std::chrono::milliseconds)> reconnected =
      nullptr;
  std::string transport = "unix";  ///< a row of transports()
  /// The row for links between workers whose `mark`s are equal; "": they are
  /// over `transport` too. All processes of a run say the same. These links
  /// don't reconnect.
  std::string near = {};
  /// Mark of the host where this worker runs (host_mark.h); "": none.
  std::string mark = {};
  /// Address of this host to listen at, with or without a port; empty:
  /// loopback, or, for a worker, the address from which it reaches the
  /// launcher.
  std::string host = {};
  FrameLimits limits = {};
  BufferSource buffers = allocate_buffer;
  SharedMemoryOptions shared_memory = {};
  /// Sets LinkOptions::damage of the link to block `to`.
  std::function<void(std::uint32_t to, const Message& message,
                     std::span<std::byte> frame)>
      damage = nullptr;
};

/// The launcher's side: where the K workers of a run meet. Makes a folder of
/// its own (mode 0700) in the system's temporary folder for the sockets, and
/// removes it when it is closed or destroyed; the links stay.
class Rendezvous {
 public:
  /// Throws UserError when no folder or socket can be made, and InternalError
  /// without a secret.
  Rendezvous(IoThread& io, RendezvousOptions options);
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  /// Address that the workers need for join().
  const std::string& address() const { return address_; }

  /// Waits until every block has joined, then tells each of them where the
  /// others are. The control link to block k is at index k - 1. Once only.
  /// Throws LinkError, Disagreement, and what `check` throws.
  std::vector<Link> accept_workers();

  /// The marks of the workers' hosts, block 1 first; after accept_workers(),
  /// where RendezvousOptions::near is given.
  const std::vector<std::string>& marks() const { return marks_; }

  /// The blocks that have not joined yet, and the connections that were refused
  /// meanwhile. For `check`.
  std::vector<std::uint32_t> awaited() const;
  Refusals refusals() const { return meeting_.refusals(); }

  /// Ends accept_workers() with a Disagreement, which all that join receive.
  void refuse_all(std::string reason) {
    meeting_.refuse_all(std::move(reason));
  }

  /// Removes the folder: no worker can join any more, nor links over UNIX
  /// sockets reconnect. Safe from any thread.
  void close();

 private:
  void add_worker(const Hello& hello, std::vector<std::string>& addresses);

  IoThread& io_;
  const RendezvousOptions options_;
  Meeting meeting_;
  std::mutex mutex_;  // guards folder_
  std::optional<TemporaryFolder> folder_;
  std::string address_;
  std::vector<std::string> marks_ = {};
};

/// A worker that shares a link with the one that joins.
struct PeerLink {
  std::uint32_t peer = 0;  ///< its number, not the own one
  Capacity capacity = {};  ///< up: from the lower to the higher number
};

/// Links of a worker to the launcher and its peers.
struct JoinedLinks {
  Link control;
  std::map<std::uint32_t, Link> peers = {};  ///< by number
  /// What these links are over, a row of transports() each; the peer has found
  /// the same.
  std::map<std::uint32_t, std::string> transports = {};
  std::string run = {};  ///< what the launcher said of its run
};

/// The worker's side: `block` (from 1) joins the rendezvous at `address` and
/// connects to its peers, each of which names it too, with the same capacity.
/// Throws LinkError, and Disagreement when the launcher refuses it.
JoinedLinks join(IoThread& io, const std::string& address, std::uint32_t block,
                 const std::vector<PeerLink>& peers, RendezvousOptions options);

}  // namespace sluice
