#include "lib/schedules/plan/gathering.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "lib/base/error.h"

namespace sluice {
namespace {

constexpr double kSpreads = 3;
/// Standard deviation of normally distributed numbers, in median absolute
/// deviations.
constexpr double kNormal = 1.4826;
/// Least spread, in medians.
constexpr double kLeastSpread = 0.05;
/// Periods that count, of each replica.
constexpr std::size_t kPeriodsEach = 8;

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

void Periods::add(double seconds) {
  last_.push_back(seconds);
  if (last_.size() > kept_) last_.pop_front();
}

double Periods::awaited() const {
  if (2 * last_.size() < kept_) return std::numeric_limits<double>::infinity();
  std::vector<double> all(last_.begin(), last_.end());
  const double middle = median(all);
  for (double& each : all) each = std::abs(each - middle);
  const double spread =
      std::max(kNormal * median(std::move(all)), kLeastSpread * middle);
  return middle + kSpreads * spread;
}

Gathering::Gathering(Quorum quorum, int members)
    : quorum_(quorum),
      members_(members),
      periods_(kPeriodsEach * static_cast<std::size_t>(members)) {
  SLUICE_CHECK(quorum_.least >= 1 && quorum_.least <= members_,
               "a quorum of {} of {} replicas", quorum_.least, members_);
}

bool Gathering::bring(int member, std::int64_t turn, double time) {
  if (quorum_.drops_late && turn <= merged_turn_) return false;
  SLUICE_CHECK(waiting_.insert(member).second,
               "replica {} brings something while it waits", member);
  waiting_turn_ = std::max(waiting_turn_, turn);
  if (const auto took = took_.extract(member))
    periods_.add(time - took.mapped());
  look(time);
  return true;
}

void Gathering::rest(int member, double time) {
  resting_.insert(member);
  go_on_if_all_rest(time);
  look(time);
}

void Gathering::lose(int member, double time) {
  lost_.insert(member);
  waiting_.erase(member);
  resting_.erase(member);
  took_.erase(member);
  go_on_if_all_rest(time);
  look(time);
}

/// Without a replica that was lost the grace begins anew once the quorum is
/// complete again.
void Gathering::look(double time) {
  if (!has_quorum())
    since_.reset();
  else if (!since_)
    since_ = time;
}

void Gathering::go_on_if_all_rest(double time) {
  if (active() > 0) return;
  for (const int member : std::exchange(resting_, {})) took_[member] = time;
}

int Gathering::active() const {
  return members_ - static_cast<int>(resting_.size() + lost_.size());
}

bool Gathering::has_quorum() const {
  return !waiting_.empty() &&
         std::ssize(waiting_) >= std::min(quorum_.least, active());
}

bool Gathering::is_complete() const {
  const bool waits_for_more = quorum_.follows_arrivals || quorum_.grace > 0;
  return has_quorum() && (!waits_for_more || std::ssize(waiting_) == active());
}

/// Time until which those are waited for that don't wait.
double Gathering::awaited_until() const {
  double last = -std::numeric_limits<double>::infinity();
  const double awaited = periods_.awaited();
  for (int member = 1; member <= members_; ++member) {
    if (waiting_.contains(member) || resting_.contains(member) ||
        lost_.contains(member))
      continue;
    const auto took = took_.find(member);
    if (took == took_.end()) return std::numeric_limits<double>::infinity();
    last = std::max(last, took->second + awaited);
  }
  return last;
}

std::optional<double> Gathering::due() const {
  if (!since_) return std::nullopt;
  if (!quorum_.follows_arrivals) return *since_ + quorum_.grace;
  const double until = awaited_until();
  if (until == std::numeric_limits<double>::infinity()) return std::nullopt;
  return std::max(*since_, until);
}

std::vector<int> Gathering::merge(double time) {
  std::vector<int> all(waiting_.begin(), waiting_.end());
  for (const int member : std::exchange(waiting_, {})) took_[member] = time;
  since_.reset();
  merged_turn_ = std::max(merged_turn_, waiting_turn_);
  return all;
}

}  // namespace sluice
