#include "experiments/runs/processes/door.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "experiments/runs/processes/own_terms.h"
#include "experiments/runs/ranks/note.h"
#include "experiments/runs/seats/meeting_numbers.h"
#include "experiments/runs/seats/ways.h"
#include "experiments/runs/seats/worker_arguments.h"
#include "lib/base/error.h"
#include "lib/base/files/user_text.h"
#include "lib/engines/control.h"
#include "transport/links/hello.h"
#include "transport/links/io_thread.h"
#include "transport/meeting/rendezvous.h"

namespace sluice {
namespace {

/// Most time from a note that is taken to the call of its last worker.
constexpr std::chrono::seconds kTimeAfterNote(30);

/// A rendezvous ended before its replica had joined.
class NobodyCame final : public Error {
 public:
  using Error::Error;
};

}  // namespace

std::string door_of_run(const std::string& folder) {
  return folder + "/door.json";
}

/// A rendezvous with its note, and what is to be done while it waits.
class Door::OpenPlace {
 public:
  /// is_over: whether no replica may come any more.
  OpenPlace(IoThread& io, const Experiment& experiment, const Note& where,
            std::function<void(const std::string& address)> on_call,
            std::function<bool()> is_over, const std::string& host,
            const Terms& terms)
      : depth_(static_cast<std::uint32_t>(experiment.blocks())),
        on_call_(std::move(on_call)),
        is_over_(std::move(is_over)),
        rendezvous_(io, options(experiment, where, host, terms)),
        note_(std::in_place, door_of_run(where.folder), with_address(where)) {}

  /// Control links of the replica's workers.
  std::vector<Link> meet() {
    std::vector<Link> links = rendezvous_.accept_workers();
    links.resize(depth_);  // those of replica 1 have theirs
    note_.reset();
    return links;
  }

 private:
  Note with_address(Note note) const {
    note.address = rendezvous_.address();
    return note;
  }

  RendezvousOptions options(const Experiment& experiment, const Note& where,
                            const std::string& host, const Terms& terms) {
    RendezvousOptions options = rendezvous_options(experiment, where.secret);
    choose_transports(experiment, host.empty(), options);
    options.host = host;
    const MeetingNumbers numbers(experiment.seat_names(), where.replica);
    numbers.set_in(options);
    options.run = to_text(terms);
    options.judge = [=, depth = depth_, equal = experiment.equal_builds](
                        std::uint32_t number, const std::string& its) {
      if (number > depth) return std::string();  // a worker of the launcher's
      try {
        return why_refused(terms, terms_from(its), numbers.seat_of(number) - 1,
                           equal);
      } catch (const LinkError& error) {
        return text_of(error);
      }
    };
    options.patience = kSupervisedDeadline;
    options.deadline = kSupervisedDeadline;
    options.check = [this] { check(); };
    return options;
  }

  void check() {
    if (is_over_()) throw NobodyCame("no replica may come any more");
    const std::vector<std::uint32_t> awaited = rendezvous_.awaited();
    const bool all_call =
        std::none_of(awaited.begin(), awaited.end(),
                     [&](std::uint32_t number) { return number <= depth_; });
    if (all_call && !has_called_) {
      has_called_ = true;
      on_call_(rendezvous_.address());
    }
    if (has_called_) return;
    const auto now = std::chrono::steady_clock::now();
    if (std::filesystem::exists(note_->path()))
      taken_ = now;
    else if (now - taken_ > kTimeAfterNote)
      throw NobodyCame("whoever took the note has not called");
  }

  const std::uint32_t depth_;
  const std::function<void(const std::string&)> on_call_;
  const std::function<bool()> is_over_;
  bool has_called_ = false;
  std::chrono::steady_clock::time_point taken_ =
      std::chrono::steady_clock::now();
  Rendezvous rendezvous_;
  std::optional<PostedNote> note_;
};

namespace {

NewcomerNews missing(int replica, const std::exception& why) {
  say("sluice: replica {} wanted to join, and didn't: {}\n", replica,
      text_of(why));
  return {.kind = NewcomerNews::Kind::missing, .replica = replica};
}

}  // namespace

Door::Door(const Experiment& experiment, std::string folder, std::string host,
           const Secret& secret)
    : experiment_(experiment),
      folder_(std::move(folder)),
      host_(std::move(host)),
      secret_(secret) {}

Door::~Door() = default;

void Door::offer(int replica) {
  {
    const std::lock_guard lock(mutex_);
    offer_ = replica;
  }
  offered_.notify_one();
  if (!thread_.joinable())
    thread_ =
        std::jthread([this](const std::stop_token& over) { serve(over); });
}

std::optional<NewcomerNews> Door::next() {
  const std::lock_guard lock(mutex_);
  if (news_.empty()) return std::nullopt;
  NewcomerNews news = std::move(news_.front());
  news_.pop();
  return news;
}

void Door::tell(NewcomerNews news) {
  {
    const std::lock_guard lock(mutex_);
    news_.push(std::move(news));
  }
  bell_->ring();
}

void Door::serve(const std::stop_token& over) {
  while (true) {
    int replica = 0;
    {
      std::unique_lock lock(mutex_);
      if (!offered_.wait(lock, over, [this] { return offer_ > 0; })) return;
      replica = std::exchange(offer_, 0);
    }
    NewcomerNews news = meet(replica, over);
    if (over.stop_requested()) return;
    tell(std::move(news));
  }
}

NewcomerNews Door::meet(int replica, const std::stop_token& over) {
  using Kind = NewcomerNews::Kind;
  is_dismissed_ = false;
  place_.reset();  // its note would take the next one's place with it
  try {
    if (!io_) io_ = std::make_unique<IoThread>();
    if (!terms_) terms_ = terms_of(experiment_, 0);
    place_ = std::make_unique<OpenPlace>(
        *io_, experiment_,
        Note{.secret = secret_, .folder = folder_, .replica = replica},
        [this, replica](const std::string& address) {
          tell({.kind = Kind::calls, .replica = replica, .address = address});
        },
        [this, over] { return over.stop_requested() || is_dismissed_; }, host_,
        *terms_);
    return {.kind = Kind::joined, .replica = replica, .links = place_->meet()};
  } catch (const NobodyCame&) {
    return {.kind = Kind::missing, .replica = replica};
  } catch (const LinkError& error) {
    return missing(replica, error);
  } catch (const Disagreement& error) {
    return missing(replica, error);
  } catch (const std::exception& error) {
    say("sluice: no replica can join any more: {}\n", text_of(error));
    return {.kind = Kind::closed, .replica = replica};
  }
}

}  // namespace sluice
