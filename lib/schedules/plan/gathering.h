#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace sluice {

/// Rule for the moment at which a centre merges what waiting replicas bring.
struct Quorum {
  /// Replicas that a merge waits for at least, or all that still bring
  /// something. 0: the centre serves each replica by itself, without a wait.
  int least = 0;
  /// Seconds that the centre waits for more replicas once that many have come.
  double grace = 0;
  /// Or it waits for each replica as long as most take (Periods).
  bool follows_arrivals = false;
  /// Whether a push for a turn that was merged without it is dropped, and the
  /// replica goes on with the turn that is due; else the next merge has it,
  /// too.
  bool drops_late = false;

  bool is_there() const { return least > 0; }
  /// Whether a centre goes on when one of so many replicas is lost: it waits
  /// for some only, or for none.
  bool survives_loss(int members) const { return least < members; }
  bool operator==(const Quorum&) const = default;
};

/// Times that replicas take from one merge to the next, and how long one is
/// waited for: their median and three times their spread, the median absolute
/// deviation times 1.4826, which for normally distributed times is the standard
/// deviation, or a twentieth of the median if that is more. A few that are far
/// slower don't change it.
class Periods {
 public:
  /// kept: how many count, the last ones.
  explicit Periods(std::size_t kept) : kept_(kept) {}
  void add(double seconds);
  /// In seconds; infinite until half of those that count are there.
  double awaited() const;

 private:
  std::size_t kept_;
  std::deque<double> last_;
};

/// Replicas that have come to a centre, and those it still waits for: the rule
/// by which centre and simulation decide. Times are seconds of any clock.
class Gathering {
 public:
  Gathering(Quorum quorum, int members);

  /// A replica, from 1, brings what is of that turn, and waits. Returns false
  /// where that is too late: it is dropped, and the replica doesn't wait.
  bool bring(int member, std::int64_t turn, double time);
  /// Notes that the replica brings nothing more until all rest.
  void rest(int member, double time);
  /// Notes that the replica is lost: it brings nothing, and doesn't wait.
  void lose(int member, double time);
  /// Notes that a replica which was lost, or never there, brings something from
  /// now on.
  void admit(int member) { lost_.erase(member); }
  bool waits(int member) const { return waiting_.contains(member); }
  bool any_waits() const { return !waiting_.empty(); }
  /// Whether enough replicas wait for a merge.
  bool has_quorum() const;
  /// Whether no replica is to be waited for any more.
  bool is_complete() const;
  /// End of the grace of those who wait; nothing: there is no quorum, or all
  /// others are waited for.
  std::optional<double> due() const;
  /// Replicas that waited, ascending; their wait ends here.
  std::vector<int> merge(double time);
  /// The latest turn of what was merged; -1: nothing was.
  std::int64_t merged_turn() const { return merged_turn_; }
  /// Seconds after a merge for which a replica is waited for now, where that
  /// follows the arrivals.
  double awaited() const { return periods_.awaited(); }

 private:
  int active() const;
  void go_on_if_all_rest(double time);
  void look(double time);
  double awaited_until() const;

  Quorum quorum_;
  int members_;
  std::set<int> waiting_;
  std::set<int> resting_;
  std::set<int> lost_;
  std::int64_t waiting_turn_ = -1;  // the latest of those who wait
  std::int64_t merged_turn_ = -1;
  std::optional<double> since_;  // that the quorum is there
  Periods periods_;
  std::map<int, double> took_;  // time at which each began its work
};

}  // namespace sluice
