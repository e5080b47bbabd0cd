#include "transport/meeting/reconnectors.h"

#include <algorithm>
#include <utility>

#include <boost/asio/steady_timer.hpp>

#include "lib/base/error.h"
#include "transport/links/authenticate.h"
#include "transport/meeting/peer_acceptor.h"
#include "transport/wire/completion.h"
#include "transport/wire/timeout.h"

namespace sluice {
namespace {

namespace asio = boost::asio;
using Clock = Reconnector::Clock;
using namespace std::chrono_literals;

// Most time of one attempt, from the call to the peer's hello.
constexpr Clock::duration kAttempt = 2s;

// Pause before an attempt: none at first, then longer the longer the trouble
// lasts.
Clock::duration pause_after(Clock::duration trouble) {
  if (trouble < 1ms) return 0ms;
  return std::clamp<Clock::duration>(trouble / 2, 10ms, 1s);
}

Hello with_counts(Hello hello, std::uint64_t received, std::uint64_t taken) {
  hello.received = received;
  hello.taken = taken;
  return hello;
}

class CallingReconnector final : public Reconnector {
 public:
  CallingReconnector(std::shared_ptr<PeerAcceptor> peers, std::string address,
                     Hello mine)
      : peers_(std::move(peers)),
        address_(std::move(address)),
        mine_(std::move(mine)),
        pause_(peers_->executor()) {}

  void expect(std::function<void()>) override {}  // it is we who call

  asio::awaitable<AcceptedPeer> meet(std::uint64_t received,
                                     std::uint64_t taken,
                                     Clock::time_point since,
                                     Clock::time_point until) override {
    const Hello mine = with_counts(mine_, received, taken);
    std::string reason = "there was no time to call it";
    for (;;) {
      pause_.expires_after(pause_after(Clock::now() - since));
      co_await pause_.async_wait(kResult);
      const Clock::time_point now = Clock::now();
      if (stopped_ || now >= until) throw LinkError("{}", reason);
      try {
        co_return co_await peers_->dial(address_, mine,
                                        std::min(until, now + kAttempt));
      } catch (const FencedLinkError&) {
        throw;
      } catch (const VersionError&) {
        throw;
      } catch (const LinkError& error) {
        reason = error.what();
      }
    }
  }

  void stop() override {
    stopped_ = true;
    pause_.cancel();
  }

 private:
  const std::shared_ptr<PeerAcceptor> peers_;
  const std::string address_;
  const Hello mine_;
  asio::steady_timer pause_;
  bool stopped_ = false;
};

class WaitingReconnector final : public Reconnector {
 public:
  WaitingReconnector(std::shared_ptr<PeerAcceptor> peers, Hello mine)
      : peers_(std::move(peers)),
        link_(std::make_shared<AwaitedPeer>(peers_->executor())) {
    link_->mine = std::move(mine);
  }

  void expect(std::function<void()> returned) override {
    link_->returned = std::move(returned);
    peers_->expect(link_);
  }

  asio::awaitable<AcceptedPeer> meet(std::uint64_t received,
                                     std::uint64_t taken, Clock::time_point,
                                     Clock::time_point until) override {
    const Hello mine = with_counts(link_->mine, received, taken);
    std::string reason = "it did not call again";
    for (;;) {
      co_await wait(until);
      if (link_->restarted) {
        throw FencedLinkError(
            "{} was started anew, and knows nothing of this link",
            block_name(mine.to));
      }
      if (!link_->accepted) throw LinkError("{}", reason);
      AcceptedPeer accepted = std::move(*link_->accepted);
      link_->accepted.reset();
      check_agreement(mine, accepted.hello);
      try {
        const Timeout timeout(peers_->executor(), Clock::now() + kAttempt,
                              [&accepted] { accepted.stream.close(); });
        co_await write_hello(accepted.stream, mine);
        co_return accepted;
      } catch (const LinkError& error) {
        reason = error.what();
      }
    }
  }

  void stop() override {
    link_->stopped = true;
    link_->accepted.reset();
    link_->came.cancel();
  }

 private:
  asio::awaitable<void> wait(Clock::time_point until) {
    while (!link_->accepted && !link_->restarted && !link_->stopped &&
           Clock::now() < until) {
      link_->came.expires_at(until);
      co_await link_->came.async_wait(kResult);
    }
  }

  const std::shared_ptr<PeerAcceptor> peers_;
  const std::shared_ptr<AwaitedPeer> link_;
};

}  // namespace

std::shared_ptr<Reconnector> make_calling_reconnector(
    std::shared_ptr<PeerAcceptor> peers, std::string address, Hello mine) {
  return std::make_shared<CallingReconnector>(
      std::move(peers), std::move(address), std::move(mine));
}

std::shared_ptr<Reconnector> make_waiting_reconnector(
    std::shared_ptr<PeerAcceptor> peers, Hello mine) {
  return std::make_shared<WaitingReconnector>(std::move(peers),
                                              std::move(mine));
}

}  // namespace sluice
