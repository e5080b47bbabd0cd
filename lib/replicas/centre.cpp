#include "lib/replicas/centre.h"

#include <cstddef>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

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

Centre::Centre(int members, Deadline deadline, std::string name)
    : deadline_(deadline),
      name_(std::move(name)),
      served_(at::zeros({1}, at::kLong)),
      statistics_(static_cast<std::size_t>(members)) {}

void Centre::own(std::unique_ptr<CentreRule> rule,
                 std::vector<std::string> names) {
  const std::lock_guard lock(mutex_);
  rule_ = std::move(rule);
  names_ = std::move(names);
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
  if (why_.empty()) throw PeerGone("{}: replica {} is gone", name_, gone_);
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

Served Centre::serve(Push push) {
  const at::NoGradGuard no_grad;
  std::unique_lock lock(mutex_);
  wait(lock, "the centre to open", [&] { return is_open_; });
  check_all_are_there();
  Served served = rule_->serve(std::move(push));
  served.place = served_.item<std::int64_t>() + 1;
  served_.fill_(served.place);
  return served;
}

/// The last one sees the centre at rest: the others wait for it.
void Centre::arrive(int member, Tensors statistics) {
  const at::NoGradGuard no_grad;
  const std::lock_guard lock(mutex_);
  statistics_.at(static_cast<std::size_t>(member) - 1) = std::move(statistics);
  if (++arrived_ < members()) return;
  SLUICE_CHECK(rule_ != nullptr, "{}: its centre has no rule", name_);
  arrived_ = 0;
  at_rest_ = {.weights = rule_->consensus(),
              .statistics = sum_in_order(statistics_),
              .state = copies_of_state(live_state())};
  ++rests_;
  changed_.notify_all();
}

void Centre::await_rest(std::int64_t times) {
  std::unique_lock lock(mutex_);
  wait(lock, "the others", [&] { return rests_ >= times; });
}

void Centre::leave(int member, const std::string& why) {
  const std::lock_guard lock(mutex_);
  // Who only is gone may have gone for a reason that comes now.
  if (gone_ == 0 || (why_.empty() && !why.empty())) {
    gone_ = member;
    why_ = why;
  }
  changed_.notify_all();
}

}  // namespace sluice
