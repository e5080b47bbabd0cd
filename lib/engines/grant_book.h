#pragma once

#include <cstddef>
#include <deque>
#include <set>
#include <span>
#include <vector>

#include "lib/blocks/source.h"
#include "lib/engines/crew.h"
#include "lib/schedules/plan/plan.h"

namespace sluice {

/// The grants of a crew, numbered from 0, and how many each block has carried
/// out. Grants that all blocks have carried out are dropped, but for the last.
class GrantBook {
 public:
  struct Entry {
    Grant grant = {};
    std::vector<Batch> batches = {};
  };

  /// ahead: CrewProgress::ahead.
  GrantBook(std::size_t blocks, std::size_t ahead)
      : reached_(blocks), ahead_(ahead) {}

  void give(const Grant& grant, std::span<const Batch> batches);
  std::size_t given() const { return forgotten_ + kept_.size(); }
  const Entry& at(std::size_t n) const;

  /// The block has carried out its next one; returns which.
  std::size_t reach(int block);
  std::size_t reached(int block) const;
  /// How many grants the blocks have carried out, summed over the blocks: not
  /// how many all of them have (progress().slowest).
  std::size_t all_reached() const;
  bool all_done() const { return all_reached() == given() * reached_.size(); }
  /// A lost block counts as having reached every grant, and is neither the
  /// fastest nor the slowest.
  void leave_out(int block) {
    left_out_.insert(block);
    awaited_.erase(block);
  }
  /// One that was left out shall begin with the next grant that is given: it is
  /// the slowest from now on, and may be the fastest from take_in() on.
  void await(int block) {
    left_out_.erase(block);
    awaited_.insert(block);
  }
  void take_in(int block) { awaited_.erase(block); }
  const std::set<int>& left_out() const { return left_out_; }
  /// Whether nothing comes after what the block has carried out.
  bool is_over(int block) const;
  CrewProgress progress() const;

 private:
  std::deque<Entry> kept_;  // the last one always
  std::size_t forgotten_ = 0;
  std::vector<std::size_t> reached_;  // index k-1
  std::set<int> left_out_;
  std::set<int> awaited_;
  std::size_t ahead_;
};

}  // namespace sluice
