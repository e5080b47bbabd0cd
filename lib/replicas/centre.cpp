#include "lib/replicas/centre.h"

#include <cstddef>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/replicas/sums.h"

namespace sluice {
namespace {

NamedTensors copies_of_state(const NamedTensors& tensors) {
  NamedTensors copies;
  for (const auto& [name, tensor] : tensors)
    copies.emplace_back(name, tensor.detach().clone());
  return copies;
}

}  // namespace

ServerAnswer CentreRule::serve(Push /*push*/) {
  throw InternalError("a centre that serves nobody by himself");
}

void CentreRule::merge(std::vector<Push> /*pushes*/) {
  throw InternalError("a centre that merges nothing");
}

ServerAnswer CentreRule::give(int /*member*/) {
  throw InternalError("a centre that merges nothing");
}

Centre::Centre(int members, Deadline deadline, std::string name)
    : deadline_(deadline),
      name_(std::move(name)),
      served_(at::zeros({1}, at::kLong)),
      statistics_(static_cast<std::size_t>(members)),
      brought_(statistics_.size()),
      ready_(statistics_.size()),
      merges_seen_(statistics_.size(), 0) {}

void Centre::own(std::unique_ptr<CentreRule> rule,
                 std::vector<std::string> names, const Quorum& quorum) {
  const std::lock_guard lock(mutex_);
  rule_ = std::move(rule);
  names_ = std::move(names);
  quorum_ = quorum;
  if (quorum_.is_there()) gathering_.emplace(quorum_, members());
  catch_up();
}

/// Replicas whose processes were faster than that of the owner have come to
/// rest, or have left, before the rule was there. A gathering that missed them
/// counts wrongly for ever: it merges without a quorum, or waits for a replica
/// that waits for it.
void Centre::catch_up() {
  if (gathering_)
    for (const int member : arrived_) gathering_->rest(member);
  for (const int member : std::exchange(left_early_, {})) depart(member, "");
}

void Centre::open(const Tensors& weights, std::int64_t clock) {
  const at::NoGradGuard no_grad;
  const std::lock_guard lock(mutex_);
  SLUICE_CHECK(rule_ && !is_open_, "{}: its centre opens twice, or has no rule",
               name_);
  if (!weights.empty()) {
    rule_->begin(weights, clock);
    served_.zero_();
  }
  is_open_ = true;
  changed_.notify_all();
}

void Centre::rejoin(int member) {
  const at::NoGradGuard no_grad;
  const std::lock_guard lock(mutex_);
  SLUICE_CHECK(rule_ && !is_open_, "{}: replica {} comes back too late", name_,
               member);
  rule_->give(member);
}

/// The count by the names of what it is of, so that another cut finds it too.
NamedTensors Centre::live_state() const {
  NamedTensors all = rule_->state();
  for (const std::string& name : names_)
    all.emplace_back("served." + name, served_);
  return all;
}

NamedTensors Centre::state() const {
  const std::lock_guard lock(mutex_);
  return rests_ > 0 ? at_rest_.state : live_state();
}

std::int64_t Centre::kept_bytes() const {
  const std::lock_guard lock(mutex_);
  std::int64_t bytes =
      bytes_of(values_of(live_state())) + bytes_of(at_rest_.weights) +
      bytes_of(at_rest_.statistics) + bytes_of(values_of(at_rest_.state));
  for (const Tensors& each : statistics_) bytes += bytes_of(each);
  return bytes;
}

void Centre::check_all_are_there() const {
  if (gone_ == 0) return;
  if (why_.empty()) throw PeerGoneError("{}: replica {} is gone", name_, gone_);
  throw UserError("{}", failure_text());
}

std::string Centre::failure_text() const {
  if (why_.empty()) return "";
  return fmt::format("{}: its centre could not serve replica {}: {}", name_,
                     gone_, why_);
}

std::string Centre::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_text();
}

void Centre::wait(std::unique_lock<std::mutex>& lock, const char* what,
                  const std::function<bool()>& is_over) {
  const bool has_ended = changed_.wait_for(
      lock, deadline_, [&] { return is_over() || gone_ != 0; });
  if (is_over()) return;
  check_all_are_there();
  SLUICE_CHECK(!has_ended, "{}: a wait without an end", name_);
  throw LinkError("{}: a replica has waited {} s for {}", name_,
                  deadline_.count() / 1000, what);
}

ServerAnswer Centre::serve(Push push) {
  const at::NoGradGuard no_grad;
  std::unique_lock lock(mutex_);
  wait(lock, "the centre to open", [&] { return is_open_; });
  check_all_are_there();
  dealer_.took(push.member);
  ServerAnswer served = rule_->serve(std::move(push));
  served.place = next_place();
  return served;
}

std::int64_t Centre::next_place() {
  const std::int64_t place = served_.item<std::int64_t>() + 1;
  served_.fill_(place);
  return place;
}

std::int64_t Centre::bring(Push push) {
  const at::NoGradGuard no_grad;
  std::unique_lock lock(mutex_);
  wait(lock, "the centre to open", [&] { return is_open_; });
  check_all_are_there();
  SLUICE_CHECK(gathering_.has_value(), "{}: its centre merges nothing", name_);
  const std::int64_t place = next_place();
  const int member = push.member;
  dealer_.took(member);
  if (gathering_->bring(member, push.batch)) {
    by_block(brought_, member) = std::move(push);
    merge_if_complete();
  } else {
    by_block(ready_, member) = merged_for(member, true);
  }
  return place;
}

void Centre::merge_if_complete() {
  if (gathering_->is_complete()) return merge();
  if (!gathering_->has_quorum() || quorum_since_) return;
  quorum_since_ = Clock::now();
  changed_.notify_all();
}

void Centre::merge() {
  const std::vector<int> members = gathering_->merge();
  std::vector<Push> pushes;
  pushes.reserve(members.size());
  for (const int member : members)
    pushes.push_back(std::exchange(by_block(brought_, member), {}));
  rule_->merge(std::move(pushes));
  ++merges_;
  for (const int member : members)
    by_block(ready_, member) = merged_for(member, false);
  quorum_since_.reset();
  changed_.notify_all();
}

/// The result for a replica, fixed when its push is merged: others may be
/// merged before it takes that.
MergeResult Centre::merged_for(int member, bool is_late) {
  std::int64_t& seen = by_block(merges_seen_, member);
  MergeResult merged{.served = rule_->give(member),
                     .is_late = is_late,
                     .absent = merges_ - seen - (is_late ? 0 : 1),
                     .turn = gathering_->merged_turn()};
  merged.served.place = served_.item<std::int64_t>();
  seen = merges_;
  return merged;
}

MergeResult Centre::take(int member, bool told) {
  const at::NoGradGuard no_grad;
  std::unique_lock lock(mutex_);
  std::optional<MergeResult>& mine = by_block(ready_, member);
  if (!mine && told) merge();
  const std::chrono::duration<double> grace(quorum_.grace);
  while (!mine) {
    check_all_are_there();
    if (!quorum_since_) {
      wait(lock, "the quorum", [&] { return mine || quorum_since_; });
      continue;
    }
    const auto end =
        *quorum_since_ + std::chrono::duration_cast<Clock::duration>(grace);
    if (Clock::now() >= end)
      merge();
    else
      changed_.wait_until(lock, end);
  }
  return *std::exchange(mine, std::nullopt);
}

std::optional<std::int64_t> Centre::deal(int member, std::int64_t first,
                                         std::int64_t end) {
  const std::lock_guard lock(mutex_);
  dealer_.open(first, end);
  return dealer_.deal(member, end);
}

void Centre::arrive(int member, Tensors statistics) {
  const at::NoGradGuard no_grad;
  const std::lock_guard lock(mutex_);
  statistics_.at(static_cast<std::size_t>(member) - 1) = std::move(statistics);
  arrived_.insert(member);
  if (gathering_) {
    gathering_->rest(member);
    merge_if_complete();
  }
  rest_if_all_are_there();
}

/// The last one sees the centre at rest: the others wait for it.
void Centre::rest_if_all_are_there() {
  for (int member = 1; member <= members(); ++member)
    if (!arrived_.contains(member) && !lost_.contains(member)) return;
  SLUICE_CHECK(rule_ != nullptr, "{}: its centre has no rule", name_);
  std::vector<Tensors> brought;
  for (const int member : arrived_)
    brought.push_back(by_block(statistics_, member));
  at_rest_ = {.weights = rule_->consensus(),
              .statistics = mean_in_order(brought),
              .state = copies_of_state(live_state())};
  arrived_.clear();
  ++rests_;
  changed_.notify_all();
}

void Centre::lose(int member) {
  const at::NoGradGuard no_grad;
  if (!lost_.insert(member).second) return;
  gathering_->lose(member);
  dealer_.take_back(member);
  by_block(brought_, member) = {};
  // The lost replica may have been one of the quorum: without it the grace
  // begins anew once the quorum is complete again.
  if (!gathering_->has_quorum()) quorum_since_.reset();
  merge_if_complete();
  rest_if_all_are_there();
}

void Centre::await_rest(std::int64_t times) {
  std::unique_lock lock(mutex_);
  wait(lock, "the others", [&] { return rests_ >= times; });
}

void Centre::leave(int member, const std::string& why) {
  const std::lock_guard lock(mutex_);
  // Whether the others go on without it is known when the rule comes.
  const bool is_early = rule_ == nullptr && member > 1 && why.empty();
  if (is_early)
    left_early_.push_back(member);
  else
    depart(member, why);
}

void Centre::depart(int member, const std::string& why) {
  const bool goes_on = member > 1 && why.empty() && gathering_ &&
                       quorum_.survives_loss(members());
  if (goes_on) return lose(member);
  // A replica that is only gone may have gone for a reason that comes now.
  if (gone_ == 0 || (why_.empty() && !why.empty())) {
    gone_ = member;
    why_ = why;
  }
  changed_.notify_all();
}

}  // namespace sluice
