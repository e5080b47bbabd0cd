#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "transport/links/accepted_peer.h"
#include "transport/links/authenticate.h"
#include "transport/links/hello.h"
#include "transport/links/io_thread.h"
#include "transport/links/reconnector.h"
#include "transport/links/stream.h"
#include "transport/meeting/transports.h"

namespace sluice {

class PeerAcceptor;

struct MeetingOptions {
  /// Our name and secret, shown to processes that call us; the secret is used
  /// in our own calls too.
  Identity identity = {};
  /// Time in which a caller must have proved itself and said hello; else it is
  /// refused.
  std::chrono::milliseconds greeting_time = std::chrono::seconds(2);
  /// Whether a caller that has proved itself and begins a new link may take
  /// part: why not, or "". The caller gets the reason, and so do all that came
  /// before it with a Hello::run, and wait_for(). On the I/O thread.
  std::function<std::string(const Hello&)> judge = nullptr;
  /// Name of a block in errors, as RendezvousOptions::name.
  std::function<std::string(std::uint32_t block)> name = block_name;
};

/// Connections that were refused. A peer that closed its connection without a
/// word is not counted: it may have checked whether this address listens.
struct Refusals {
  std::size_t count = 0;
  std::string last = {};  ///< why the last of them was
};

/// Makes connections on the I/O thread, has their peers prove themselves and
/// reads their hellos, while one other thread waits for those that it expects.
/// A process that isn't of the run is refused and counted, whatever it sends.
/// Connections that were not fetched are closed with the meeting, which goes on
/// listening for the links that have one of its reconnectors, while they live.
class Meeting {
 public:
  /// Throws InternalError for an empty secret.
  Meeting(IoThread& io, const Transport& transport, MeetingOptions options);
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  /// Lets peers connect; each must say hello first. Returns the address.
  std::string listen(const Place& place);
  /// Connects, says `mine` and reads the answer.
  void call(std::string address, Hello mine);
  /// Says `mine` to a peer that has proved itself, and reads its answer.
  void greet(Stream stream, Hello mine);

  /// Waits for the hello of `block` until `until`; meanwhile calls `check`
  /// (where it isn't empty) every 50 ms, which may throw to end the wait.
  /// Throws LinkError when time is up or a call failed, and Disagreement when
  /// a process of the run is of another build, or was refused by a judge.
  AcceptedPeer wait_for(std::uint32_t block,
                        std::chrono::steady_clock::time_point until,
                        const std::function<void()>& check = nullptr);

  /// Waits for the block without fetching it: a peer that is fetched doesn't
  /// learn when one that comes later is refused.
  void wait_to_meet(std::uint32_t block,
                    std::chrono::steady_clock::time_point until,
                    const std::function<void()>& check = nullptr);

  /// Tells all with a Hello::run that have come or will come that they can't
  /// take part, and wait_for(), as a judge does.
  void refuse_all(std::string reason);

  /// Whether the block's hello has come, fetched or not.
  bool has_met(std::uint32_t block) const;
  Refusals refusals() const;

  /// Reconnectors of links that go on after their connection broke: of the side
  /// that called, and of the side that was called. `mine` is what was said at
  /// first, with the session of the accepted peer.
  std::shared_ptr<Reconnector> reconnector_of_caller(std::string address,
                                                     Hello mine);
  std::shared_ptr<Reconnector> reconnector_of_called(Hello mine);

 private:
  IoThread& io_;
  const Transport transport_;
  const std::shared_ptr<PeerAcceptor> peers_;
  const std::shared_ptr<PeerAcceptor>
      open_;  // the last of these stops listening
};

}  // namespace sluice
