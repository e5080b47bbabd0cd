#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>

#include "lib/base/awake_clock.h"
#include "transport/links/accepted_peer.h"
#include "transport/meeting/meeting.h"
#include "transport/meeting/transports.h"

namespace sluice {

/// A link that was called, waiting for its peer to call again.
struct AwaitedPeer {
  explicit AwaitedPeer(const boost::asio::any_io_executor& executor)
      : came(executor) {}

  Hello mine = {};  ///< of the link; its session is the key
  std::optional<AcceptedPeer> accepted = {};
  bool restarted = false;  ///< the peer began a new link instead
  bool stopped = false;    ///< the link is over
  std::function<void()> returned = {};
  boost::asio::steady_timer came;  ///< cancelled when any of these is set
};

/// State that a meeting's coroutines share with the waiting thread; each
/// coroutine keeps it alive. Members are for the I/O thread, except those that
/// are marked for the waiting thread.
class PeerAcceptor {
 public:
  using Self = std::shared_ptr<PeerAcceptor>;
  using Clock = std::chrono::steady_clock;

  PeerAcceptor(const boost::asio::any_io_executor& executor,
               const Transport& transport, MeetingOptions options);

  // The coroutines of a meeting; they let no exception out.
  static boost::asio::awaitable<void> accept_all(Self self, Acceptor acceptor);
  static boost::asio::awaitable<void> welcome(Self self, Stream stream);
  static boost::asio::awaitable<void> call(Self self, std::string address,
                                           Hello mine);
  static boost::asio::awaitable<void> greet(Self self, Stream stream,
                                            Hello mine);
  static boost::asio::awaitable<void> refuse_all(Self self, std::string reason);
  void close();

  /// Connects to a peer and exchanges greetings, trying until `until`. Throws
  /// LinkError.
  boost::asio::awaitable<AcceptedPeer> dial(std::string address, Hello mine,
                                            Clock::time_point until);
  /// Hands peers that reconnect for that link to it, while it exists.
  void expect(const std::shared_ptr<AwaitedPeer>& link);
  const boost::asio::any_io_executor& executor() const { return executor_; }

  // Called by the waiting thread; see Meeting.
  AcceptedPeer wait_for(std::uint32_t block, Clock::time_point until,
                        const std::function<void()>& check);
  void wait_to_meet(std::uint32_t block, Clock::time_point until,
                    const std::function<void()>& check);
  bool has_met(std::uint32_t block) const;
  Refusals refusals() const;

 private:
  using Closers = std::list<std::function<void()>>;

  // Lets close() reach what a coroutine waits on.
  class CloseHook {
   public:
    CloseHook(PeerAcceptor& peers, std::function<void()> close);
    ~CloseHook() { closers_.erase(place_); }
    CloseHook(const CloseHook&) = delete;
    CloseHook& operator=(const CloseHook&) = delete;

   private:
    Closers& closers_;
    Closers::iterator place_;
  };

  boost::asio::awaitable<void> wait_for_room();
  boost::asio::awaitable<Socket> connect(std::string address,
                                         Clock::time_point until);
  boost::asio::awaitable<Handshake> prove(Stream& stream, Side side,
                                          Identity mine);
  boost::asio::awaitable<void> receive(AcceptedPeer& accepted);
  boost::asio::awaitable<void> send_away(AcceptedPeer& accepted,
                                         Session session);
  boost::asio::awaitable<void> refuse(AcceptedPeer& accepted,
                                      const std::string& reason);
  boost::asio::awaitable<void> tell_all(const std::string& reason);
  static boost::asio::awaitable<void> tell(AcceptedPeer& accepted,
                                           const std::string& reason);
  std::shared_ptr<AwaitedPeer> link_with(std::uint32_t block);
  void wait(std::unique_lock<std::mutex>& lock, std::uint32_t block,
            Clock::time_point until, const std::function<void()>& check,
            const std::function<bool()>& is_there);
  void arrived(AcceptedPeer accepted);
  void failed(const std::string& reason);
  void disagreed(const std::string& reason);
  void refused(const std::string& reason, bool is_told);
  /// Reason why there will be no run; empty: nothing speaks against it.
  std::string disagreement() const;
  std::string too_little() const;
  std::string why_late(std::uint32_t block) const;

  const boost::asio::any_io_executor executor_;
  const Transport transport_;
  const MeetingOptions options_;

  // Members of the I/O thread alone.
  Closers closers_;
  bool closed_ = false;
  int unproved_ = 0;
  boost::asio::steady_timer room_;  // its waits end when there is some
  std::map<Session, std::weak_ptr<AwaitedPeer>> returns_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // The members below are guarded by the mutex.
  std::vector<AcceptedPeer> accepted_;
  std::set<std::uint32_t> met_;   // blocks
  std::string failure_;           // of a call
  bool is_disagreement_ = false;  // that failure
  bool is_refusing_ = false;      // who has come; the waiting thread is next
  Refusals all_refusals_;         // strangers that were sent away
  Refusals told_refusals_;        // without those that said nothing
};

}  // namespace sluice
