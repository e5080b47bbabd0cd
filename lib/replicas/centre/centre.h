#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lib/base/messages/message.h"
#include "lib/replicas/centre/centre_messages.h"
#include "lib/replicas/centre/centre_rule.h"
#include "lib/replicas/centre/centre_visit.h"
#include "lib/schedules/plan/gathering.h"
#include "lib/schedules/replicas/batch_set.h"
#include "lib/schedules/replicas/dealer.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// What the centre of a block is made from.
struct CentreSetup {
  int members = 1;
  std::string name = {};  ///< of the block, in errors
  /// When it merges what replicas bring; none: it serves each by itself.
  Quorum quorum = {};
  std::set<int> absent = {};  ///< replicas that aren't there yet
  /// Whether a record says when it merges: take() alone does then.
  bool is_told = false;
  /// Whether what others take depends on when a replica was lost: then a loss
  /// has a place among what is served.
  bool counts_losses = false;
  /// Whether each batch is served once: what another replica brings of it
  /// again, because the dealer of block 1 has taken it back, is dropped.
  bool serves_once = false;
  /// Whether the block has others beside other replicas
  /// (ReplicaExchange::visits_partners). At rest it tells replica 1 its weights
  /// and what visitors have brought, and the replica that opened it the rest;
  /// any lost replica ends it.
  bool is_of_several = false;
  std::set<int> outside = {};  ///< replicas that come to others
  std::function<std::unique_ptr<CentreRule>(const NamedTensors& parameters)>
      make = nullptr;
};

/// The centre of a block, to which replicas come when they are ready: what it
/// says to each message (centre_messages.h), in the order in which they come.
/// Knows no links, and waits for nothing (CentreHost does). Used by one thread.
class Centre {
 public:
  using SteadyTime = std::chrono::steady_clock::time_point;
  /// Sends an answer, from within the functions below.
  using Answer = std::function<void(int member, Message message)>;

  Centre(CentreSetup setup, Answer answer);

  int members() const { return setup_.members; }
  /// Takes a message of a replica, from 1; answers now or later, as soon as it
  /// can. What comes before a replica has opened the centre waits for that. The
  /// message's memory may be written as soon as it has been answered.
  void hear(int member, const Message& message);
  /// The replica is gone before its end: those who wait for anything wait in
  /// vain, unless the quorum goes on without it (Quorum::survives_loss()), and
  /// it isn't the one that opens the centre, and gets what is agreed on.
  /// is_replaced: admit() follows, and those who rest wait for that one.
  void leave(int member, bool is_replaced = false);
  /// A replica that has left, or was never there, is there from now on. It asks
  /// for its entry before all else.
  void admit(int member);
  /// Counts a place of one that was lost before it said anything.
  void leave_out_place() { next_place(); }
  /// End of the grace of a quorum for which a replica waits, when come_due() is
  /// to be called; nothing: there is none.
  std::optional<SteadyTime> due() const;
  void come_due();
  /// Merges what there is, where a replica waits for others of a quorum: they
  /// wait too, for it, at the centres of other blocks, or for who waits there.
  void merge_those_who_wait();

 private:
  void guard(const std::string& what, const std::function<void()>& act);
  void respond(int member, const Message& message);
  void open(int member, const CentreOpening& opening);
  void restore(const NamedTensors& state);
  DealtBatches batches() const;
  Message served(Push push);
  Message brought(Push push);
  void take(int member, bool told);
  void arrive(int member, const Message& message);
  Message entry(int member);
  NamedTensors state() const;
  std::int64_t kept_bytes() const;
  std::int64_t next_place();
  std::int64_t place_for(int member);
  void merge_if_complete();
  void merge();
  MergeResult merged_for(int member, bool is_late);
  void give_to_waiting();
  void rest_if_all_are_there();
  void take_means(CentreAtRest& rest);
  Message said_at_rest(int member, const CentreAtRest& rest) const;
  void lose(int member, bool is_replaced);
  void gather_without(int member);
  void fail(CentreFailure failure);

  const CentreSetup setup_;
  const Answer answer_;
  std::unique_ptr<CentreRule> rule_;           // nullptr: not yet open
  std::vector<std::function<void()>> before_;  // what came before
  std::vector<std::string> names_;             // of the parameters
  int opener_ = 1;                             // who opens it
  at::Tensor served_;                          // [1]: pushes
  Dealer dealer_;
  BatchSet batches_;                      // that were served
  std::optional<CentreFailure> failure_;  // it serves no more
  std::set<int> told_;                    // of it, as they waited
  std::vector<Tensors> statistics_;       // by replica, of arrived_
  std::set<int> arrived_;                 // wait until all rest, or are lost
  std::set<int> lost_;                    // goes on without them
  Tensors agreed_statistics_;             // at the last rest
  std::vector<CentreLoss> losses_;        // since the last rest
  std::vector<std::int64_t> last_place_;  // by replica, since it began; 0: none
  std::vector<std::int64_t> merged_at_;   // by replica, as CentreLoss::merged

  // With a quorum:
  std::optional<Gathering> gathering_;
  std::vector<Push> brought_;  // by replica, of those who wait
  std::vector<std::optional<MergeResult>> ready_;  // by replica, not yet taken
  std::set<int> taking_;                           // wait for theirs
  std::int64_t merges_ = 0;
  std::vector<std::int64_t> merges_seen_;  // by replica
};

}  // namespace sluice
