#include "experiments/runs/measuring/contended_timing.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <latch>
#include <span>
#include <thread>

#include <ATen/Parallel.h>

#include "lib/base/quantile.h"

namespace sluice {
namespace {

/// The performers that act at the same time, a thread each.
class ConcurrentPerformers {
 public:
  ConcurrentPerformers(std::span<Performer> performers,
                       std::span<Timings> timings,
                       const ContendedTiming& options)
      : performers_(performers),
        timings_(timings),
        options_(options),
        ready_(std::ssize(performers)),
        not_done_(std::ssize(performers)) {}

  void act() {
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < performers_.size(); ++i)
        threads.emplace_back([this, i] { act_in_thread(i); });
    }
    for (const std::exception_ptr& error : errors_)
      if (error) std::rethrow_exception(error);
  }

 private:
  void act_in_thread(std::size_t index) {
    at::set_num_threads(static_cast<int>(options_.threads));
    ready_.arrive_and_wait();
    try {
      do_turns(performers_[index], timings_[index]);
    } catch (...) {
      errors_[index] = std::current_exception();
      not_done_ = 0;
    }
  }

  /// Does the turns of a performer. The last performer acts alone in the turn
  /// in which it is done.
  void do_turns(Performer& performer, Timings& timings) {
    std::deque<Action>& actions = performer.actions;
    for (std::int64_t turn = 0; !actions.empty() && not_done_ > 0; ++turn) {
      if (turn == options_.turns + 1) --not_done_;
      const std::int64_t now = actions.front().turn;
      for (; !actions.empty() && actions.front().turn == now;
           actions.pop_front()) {
        const double seconds = performer.block->act(actions.front());
        if (turn > 0 && not_done_ > 0)  // the first one warms up
          timings.add(actions.front().op, seconds);
      }
    }
  }

  std::span<Performer> performers_;
  std::span<Timings> timings_;
  const ContendedTiming& options_;
  std::latch ready_;
  std::atomic<std::ptrdiff_t> not_done_;
  std::vector<std::exception_ptr> errors_ =
      std::vector<std::exception_ptr>(performers_.size());
};

}  // namespace

BlockCosts Timings::medians() const {
  BlockCosts costs{.replay = 0};
  for (const auto& [op, seconds] : seconds_)
    costs.seconds[op] = median(seconds);
  return costs;
}

std::vector<BlockCosts> act_contended(std::vector<Performer>& performers,
                                      const ContendedTiming& options) {
  const std::size_t blocks = performers.size();
  const std::size_t at_once = std::min(options.at_once, blocks);
  std::vector<Timings> timings(blocks);
  for (std::size_t first = 0; first < blocks; first += at_once) {
    // The last group is filled up with blocks that were timed before.
    const std::size_t from = std::min(first, blocks - at_once);
    ConcurrentPerformers(std::span(performers).subspan(from, at_once),
                         std::span(timings).subspan(from, at_once), options)
        .act();
  }
  std::vector<BlockCosts> costs;
  costs.reserve(blocks);
  for (const Timings& each : timings) costs.push_back(each.medians());
  return costs;
}

}  // namespace sluice
