#include "lib/schedules/plan/gathering.h"

#include <algorithm>
#include <iterator>

#include "lib/base/error.h"

namespace sluice {

Gathering::Gathering(Quorum quorum, int members)
    : quorum_(quorum), members_(members) {
  SLUICE_CHECK(quorum_.least >= 1 && quorum_.least <= members_,
               "a quorum of {} of {} replicas", quorum_.least, members_);
}

bool Gathering::bring(int member, std::int64_t turn) {
  if (quorum_.drops_late && turn <= merged_turn_) return false;
  SLUICE_CHECK(waiting_.insert(member).second,
               "replica {} brings something while it waits", member);
  waiting_turn_ = std::max(waiting_turn_, turn);
  return true;
}

void Gathering::rest(int member) {
  resting_.insert(member);
  go_on_if_all_rest();
}

void Gathering::lose(int member) {
  lost_.insert(member);
  waiting_.erase(member);
  resting_.erase(member);
  go_on_if_all_rest();
}

void Gathering::go_on_if_all_rest() {
  if (active() == 0) resting_.clear();
}

int Gathering::active() const {
  return members_ - static_cast<int>(resting_.size() + lost_.size());
}

bool Gathering::has_quorum() const {
  return !waiting_.empty() &&
         std::ssize(waiting_) >= std::min(quorum_.least, active());
}

bool Gathering::is_complete() const {
  return has_quorum() &&
         (quorum_.grace == 0 || std::ssize(waiting_) == active());
}

std::vector<int> Gathering::merge() {
  std::vector<int> all(waiting_.begin(), waiting_.end());
  waiting_.clear();
  merged_turn_ = std::max(merged_turn_, waiting_turn_);
  return all;
}

}  // namespace sluice
