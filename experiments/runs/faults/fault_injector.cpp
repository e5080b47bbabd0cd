#include "experiments/runs/faults/fault_injector.h"

#include <algorithm>
#include <csignal>
#include <ctime>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include <sys/resource.h>
#include <unistd.h>

#include "experiments/runs/faults/delayed_sender.h"
#include "lib/metrics/records.h"
#include "lib/schedules/plan/op_table.h"

namespace sluice {
namespace {

using Kind = Injection::Kind;
using Moment = Injection::Moment;
using Clock = std::chrono::steady_clock;

/// Longest time from the request to the launcher until the signal arrives.
constexpr std::chrono::seconds kSignalComes(1);

/// No file of this process can grow while this lives: the system refuses to
/// write, as it does on a full disk.
class FullDisk {
 public:
  FullDisk() {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit none{.rlim_cur = 0, .rlim_max = before_.rlim_max};
    std::signal(SIGXFSZ, SIG_IGN);
    ::setrlimit(RLIMIT_FSIZE, &none);
  }
  ~FullDisk() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_ = {};
};

bool is_due(const Injection& injection, const Action& action) {
  switch (injection.when) {
    case Moment::start:
      return false;
    case Moment::evaluation:
      return action.op == Op::evaluate && action.turn >= injection.turn;
    case Moment::checkpoint:
      return action.op == Op::save && action.turn >= injection.turn;
    case Moment::turn:
      break;
  }
  return row_of(action.op).is_training && action.turn >= injection.turn;
}

int signal_of(Kind what) {
  if (what == Kind::kill) return SIGKILL;
  return what == Kind::stop ? SIGSTOP : 0;
}

[[noreturn]] void do_nothing_for_ever() {
  for (;;) ::pause();
}

}  // namespace

FaultInjector::FaultInjector(const std::vector<Injection>& injections,
                             int block, const Heartbeat& heartbeat)
    : heartbeat_(heartbeat) {
  for (const Injection& injection : injections)
    if (injection.block == block) faults_.push_back({injection});
}

void FaultInjector::tell(std::shared_ptr<Sink> launcher) {
  launcher_ = std::move(launcher);
}

/// The launcher won't let it happen again, whatever becomes of this process.
void FaultInjector::announce(Fault& fault, std::int64_t turn, int signal) {
  fault.is_over = true;
  launcher_->write(records::Injection{.block = fault.injection.block,
                                      .at_turn = turn,
                                      .fault = fault.injection.text,
                                      .pid = ::getpid(),
                                      .signal = signal});
}

void FaultInjector::happen(Fault& fault, std::int64_t turn) {
  const Kind what = fault.injection.what;
  announce(fault, turn, signal_of(what));
  if (what == Kind::stop)
    std::this_thread::sleep_for(kSignalComes);
  else
    do_nothing_for_ever();
}

void FaultInjector::starts() {
  for (Fault& fault : faults_)
    if (!fault.is_over && fault.injection.when == Moment::start)
      happen(fault, -1);
}

void FaultInjector::before(const Action& action) {
  for (Fault& fault : faults_) {
    const Kind what = fault.injection.what;
    const bool is_of_loop =
        what == Kind::kill || what == Kind::stop || what == Kind::hang;
    if (is_of_loop && !fault.is_over && is_due(fault.injection, action))
      happen(fault, action.turn);
  }
}

bool FaultInjector::fails(const Action& action) {
  if (action.op != Op::save) return false;
  for (Fault& fault : faults_) {
    if (fault.injection.what != Kind::fail_checkpoint || fault.is_over ||
        action.turn < fault.injection.turn)
      continue;
    announce(fault, action.turn, 0);
    return true;
  }
  return false;
}

void FaultInjector::slow_down(std::chrono::nanoseconds computed) const {
  for (const Fault& fault : faults_)
    if (fault.injection.what == Kind::slow)
      std::this_thread::sleep_for(computed * (fault.injection.factor - 1));
}

namespace {

/// Time that this thread has computed, without that in which it waited for a
/// core: on a busy machine a large factor would make minutes of that.
std::chrono::nanoseconds computing_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) +
         std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

ActionWrapper FaultInjector::around() {
  return [this](const Action& action, const std::function<void()>& execute) {
    before(action);
    const auto started = Clock::now();
    const auto waited = heartbeat_.waited();
    const auto computed = computing_time();
    if (fails(action)) {
      const FullDisk no_room;
      execute();
    } else {
      execute();
    }
    const std::chrono::nanoseconds passed =
        Clock::now() - started - (heartbeat_.waited() - waited);
    slow_down(std::min(passed, computing_time() - computed));
  };
}

Link FaultInjector::with_faults(Link link, int there, std::size_t room) const {
  for (const Fault& fault : faults_)
    if (fault.injection.what == Kind::delay && fault.injection.to == there &&
        link.sender)
      link.sender =
          delayed_sender(std::move(link.sender), fault.injection.delay, room);
  return link;
}

void FaultInjector::damage(int there, const Message& message,
                           std::span<std::byte> frame) {
  for (Fault& fault : faults_) {
    const Injection& injection = fault.injection;
    if (injection.what != Kind::corrupt || fault.is_over ||
        injection.to != there || message.turn < injection.turn)
      continue;
    announce(fault, message.turn, 0);
    frame.back() ^= std::byte{1};
  }
}

}  // namespace sluice
