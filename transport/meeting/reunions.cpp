#include "transport/meeting/reunions.h"

#include <algorithm>
#include <utility>

#include <boost/asio/steady_timer.hpp>

#include "lib/base/error.h"
#include "transport/links/authenticate.h"
#include "transport/meeting/hall.h"
#include "transport/wire/completion.h"
#include "transport/wire/timeout.h"

namespace sluice {
namespace {

namespace asio = boost::asio;
using Clock = Reunion::Clock;
using namespace std::chrono_literals;

// How long one attempt may take, from the call to the peer's hello.
constexpr Clock::duration kAttempt = 2s;

// Before an attempt: nothing at first, then longer the longer it lasts.
Clock::duration pause_after(Clock::duration trouble) {
  if (trouble < 1ms) return 0ms;
  return std::clamp<Clock::duration>(trouble / 2, 10ms, 1s);
}

Hello with_counts(Hello hello, std::uint64_t received, std::uint64_t taken) {
  hello.received = received;
  hello.taken = taken;
  return hello;
}

class CallingReunion final : public Reunion {
 public:
  CallingReunion(std::shared_ptr<Hall> hall, std::string address, Hello mine)
      : hall_(std::move(hall)),
        address_(std::move(address)),
        mine_(std::move(mine)),
        pause_(hall_->executor()) {}

  void expect(std::function<void()>) override {}  // it is we who call

  asio::awaitable<Guest> meet(std::uint64_t received, std::uint64_t taken,
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
        co_return co_await hall_->dial(address_, mine,
                                       std::min(until, now + kAttempt));
      } catch (const Fenced&) {
        throw;
      } catch (const OtherVersion&) {
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
  const std::shared_ptr<Hall> hall_;
  const std::string address_;
  const Hello mine_;
  asio::steady_timer pause_;
  bool stopped_ = false;
};

class WaitingReunion final : public Reunion {
 public:
  WaitingReunion(std::shared_ptr<Hall> hall, Hello mine)
      : hall_(std::move(hall)),
        link_(std::make_shared<Return>(hall_->executor())) {
    link_->mine = std::move(mine);
  }

  void expect(std::function<void()> returned) override {
    link_->returned = std::move(returned);
    hall_->expect(link_);
  }

  asio::awaitable<Guest> meet(std::uint64_t received, std::uint64_t taken,
                              Clock::time_point,
                              Clock::time_point until) override {
    const Hello mine = with_counts(link_->mine, received, taken);
    std::string reason = "it did not call again";
    for (;;) {
      co_await wait(until);
      if (link_->restarted) {
        throw Fenced("{} was started anew, and knows nothing of this link",
                     block_name(mine.to));
      }
      if (!link_->guest) throw LinkError("{}", reason);
      Guest guest = std::move(*link_->guest);
      link_->guest.reset();
      check_agreement(mine, guest.hello);
      try {
        const Timeout timeout(hall_->executor(), Clock::now() + kAttempt,
                              [&guest] { guest.stream.close(); });
        co_await write_hello(guest.stream, mine);
        co_return guest;
      } catch (const LinkError& error) {
        reason = error.what();
      }
    }
  }

  void stop() override {
    link_->stopped = true;
    link_->guest.reset();
    link_->came.cancel();
  }

 private:
  asio::awaitable<void> wait(Clock::time_point until) {
    while (!link_->guest && !link_->restarted && !link_->stopped &&
           Clock::now() < until) {
      link_->came.expires_at(until);
      co_await link_->came.async_wait(kResult);
    }
  }

  const std::shared_ptr<Hall> hall_;
  const std::shared_ptr<Return> link_;
};

}  // namespace

std::shared_ptr<Reunion> make_calling_reunion(std::shared_ptr<Hall> hall,
                                              std::string address, Hello mine) {
  return std::make_shared<CallingReunion>(std::move(hall), std::move(address),
                                          std::move(mine));
}

std::shared_ptr<Reunion> make_waiting_reunion(std::shared_ptr<Hall> hall,
                                              Hello mine) {
  return std::make_shared<WaitingReunion>(std::move(hall), std::move(mine));
}

}  // namespace sluice
