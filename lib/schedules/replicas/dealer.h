#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace sluice {

/// What dealer and centre must know of batches to go on after a checkpoint.
struct DealtBatches {
  std::vector<std::int64_t> returned = {};  ///< to be dealt again
  /// A replica and a batch that it was dealt, and that wasn't taken yet; by
  /// replica, as dealt.
  std::vector<std::pair<int, std::int64_t>> held = {};
  /// What the centre has served, where it serves each once:
  /// BatchSet::bounds().
  std::vector<std::int64_t> served = {};

  bool operator==(const DealtBatches&) const = default;
};

/// Deals the batches of a run to its replicas, each to the one that asks first,
/// in the order of their numbers. A batch that a lost replica had is dealt
/// again. Knows no clock. For one thread at a time.
class Dealer {
 public:
  /// Deals batches before `end` from now on; `first` is the first of all, where
  /// none has been dealt before.
  void open(std::int64_t first, std::int64_t end);
  /// The batch that the next replica gets; nothing: all before `end` are dealt.
  std::optional<std::int64_t> next(std::int64_t end) const;
  std::optional<std::int64_t> next() const { return next(end_); }
  /// Deals that one to a replica, from 1.
  std::optional<std::int64_t> deal(int replica, std::int64_t end);
  /// Notes that what the replica made of that batch was taken, and of those
  /// that it was dealt before.
  void took(int replica, std::int64_t batch);
  /// Takes back what a lost replica had. Returns how many batches.
  std::int64_t take_back(int replica);
  /// Without those that were served.
  DealtBatches dealt() const;
  /// What was before all that it has dealt yet.
  void restore(const DealtBatches& dealt);
  /// Batches that were taken back, and not dealt again.
  const std::set<std::int64_t>& returned() const { return returned_; }

 private:
  std::optional<std::int64_t> next_;  // never dealt yet
  std::int64_t end_ = 0;
  std::set<std::int64_t> returned_;
  std::map<int, std::vector<std::int64_t>> held_;  // by replica, as dealt
};

}  // namespace sluice
