#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lib/base/messages/channel.h"
#include "lib/schedules/plan/gathering.h"
#include "lib/schedules/replicas/dealer.h"
#include "lib/tensors/tensors.h"
#include "lib/updates/transform.h"

namespace sluice {

/// What a replica brings to the centre of its block.
struct Push {
  int member = 1;  ///< the replica, from 1
  /// Gradients or weights, in the order of the parameters; not to be written.
  Tensors tensors = {};
  /// Update that the gradients are for, where these are pushed. Its staleness
  /// in updates is in those of the centre, as far as the replica knows: until
  /// its last pull.
  UpdateInfo info = {};
  /// The centre's clock (ServerAnswer::clock) at that pull.
  std::int64_t clock = 0;
  /// The last batch that the push is of.
  std::int64_t batch = 0;
};

/// What a replica takes away from the centre.
struct ServerAnswer {
  Tensors tensors = {};
  std::int64_t place = 0;  ///< of its push among all that were served, from 1
  // Of gradients:
  double rate = 0;          ///< with which the centre steps by them
  std::int64_t clock = 0;   ///< updates that the centre has made
  std::int64_t missed = 0;  ///< of these, between the last pull and this push
};

/// What a replica takes that has waited for others.
struct MergeResult {
  ServerAnswer served = {};  ///< its place: of the last push that was merged
  bool is_late = false;      ///< what the replica brought was dropped
  /// How often others were merged without it since it took something last.
  std::int64_t absent = 0;
  std::int64_t turn = -1;  ///< the latest that has been merged
};

/// Rule of a block's centre for what its replicas bring, one after the other.
/// Used by one thread at a time.
class CentreRule {
 public:
  virtual ~CentreRule() = default;
  /// Training begins with these weights, which are of that clock, unless
  /// state() was restored.
  virtual void begin(const Tensors& weights, std::int64_t clock) = 0;
  /// Returns what the replica takes away, but for its place: tensors that
  /// are not written any more.
  virtual ServerAnswer serve(Push push);
  /// Merges, where replicas wait for others (Quorum): makes one step of what
  /// several bring, in the order of the replicas; then each takes its own by
  /// give().
  virtual void merge(std::vector<Push> pushes);
  virtual ServerAnswer give(int member);
  /// The weights that the centre has, new tensors.
  virtual Tensors consensus() const = 0;
  /// Tensors that go on over a checkpoint, and are restored in place.
  virtual NamedTensors state() const = 0;
};

/// The centre of a block's replicas when all have come to it and none has gone
/// on.
struct CentreAtRest {
  Tensors weights = {};
  Tensors statistics = {};  ///< means of what all have brought
  NamedTensors state = {};
};

/// The centre of a block, which belongs to replica 1 and serves whoever comes,
/// in the order of their arrival. For threads of all replicas; every wait ends
/// when a replica leaves before its time.
class Centre {
 public:
  /// name: of the block, in errors. deadline: of each wait.
  Centre(int members, Deadline deadline, std::string name);

  int members() const { return static_cast<int>(statistics_.size()); }

  // For the owner, replica 1:

  /// Before all else of the owner; other replicas may have come to rest, or
  /// have left, before. names: of the parameters. quorum: when it merges what
  /// replicas bring; none: it serves each by itself.
  void own(std::unique_ptr<CentreRule> rule, std::vector<std::string> names,
           const Quorum& quorum = {});
  /// Lets a replica that was lost begin, before open(), with the weights of the
  /// centre, not with those that it had taken last.
  void rejoin(int member);
  /// Opens the centre, which serves from now on. weights: those that training
  /// begins with, which are of that clock; empty: state() was restored.
  void open(const Tensors& weights, std::int64_t clock);
  /// State at the last agreement; before the first, the current one.
  NamedTensors state() const;
  const CentreAtRest& at_rest() const { return at_rest_; }
  /// Bytes of all that it keeps: weights, the optimizer's state, what replicas
  /// have taken, and as much again of when it last was at rest.
  std::int64_t kept_bytes() const;

  // For each replica:

  /// Waits until it serves. Throws PeerGoneError when another replica has left,
  /// LinkError when the deadline passes.
  ServerAnswer serve(Push push);
  /// With a quorum: leaves a push, whose tensors stay as they are until it is
  /// merged, and returns its place. Waits and throws as serve().
  std::int64_t bring(Push push);
  /// Waits until that is merged, or until the grace of a quorum is over. told:
  /// a schedule says that it is time.
  MergeResult take(int member, bool told);
  /// The next batch of those from `first` to before `end`, where a dealer deals
  /// (MicroBatches::by_arrival), at the centre of block 1; nothing: all are
  /// dealt. What a replica has when it is lost is dealt again. Doesn't wait.
  std::optional<std::int64_t> deal(int member, std::int64_t first,
                                   std::int64_t end);
  /// The replica brings nothing more until all have come so far.
  void arrive(int member, Tensors statistics);
  /// Waits until all have come so far as often as the caller, `times`.
  void await_rest(std::int64_t times);
  /// The replica fails: those who wait for anything wait in vain, unless the
  /// quorum goes on without it (Quorum::survives_loss()), or it is replica 1.
  /// why: what went wrong at the centre, if that is known.
  void leave(int member, const std::string& why = {});
  /// Error at the centre, with its replica, which is thrown at the others as a
  /// UserError. Empty: none, or a replica alone knows it.
  std::string failure() const;

 private:
  void wait(std::unique_lock<std::mutex>& lock, const char* what,
            const std::function<bool()>& is_over);
  void check_all_are_there() const;
  std::string failure_text() const;
  NamedTensors live_state() const;
  std::int64_t next_place();
  void merge_if_complete();
  void rest_if_all_are_there();
  void catch_up();
  void depart(int member, const std::string& why);
  void lose(int member);
  void merge();
  MergeResult merged_for(int member, bool is_late);

  const Deadline deadline_;
  const std::string name_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::unique_ptr<CentreRule> rule_;
  std::vector<std::string> names_;
  at::Tensor served_;  // [1]: pushes
  Dealer dealer_;
  bool is_open_ = false;
  /// The first replica that has left, or that was failed here; 0: none.
  int gone_ = 0;
  std::string why_;                  // of that one
  std::vector<Tensors> statistics_;  // by replica, of those that have arrived
  std::set<int> arrived_;
  std::set<int> lost_;           // who goes on without them
  std::vector<int> left_early_;  // before the owner had given its rule
  std::int64_t rests_ = 0;
  CentreAtRest at_rest_;

  using Clock = std::chrono::steady_clock;
  Quorum quorum_;
  std::optional<Gathering> gathering_;
  std::optional<Clock::time_point> quorum_since_;
  std::vector<Push> brought_;  // by replica, of those who wait
  std::vector<std::optional<MergeResult>> ready_;  // by replica, not yet taken
  std::int64_t merges_ = 0;
  std::vector<std::int64_t> merges_seen_;  // by replica
};

/// How one replica reaches the centre of its block. Used by one thread.
class CentreLink {
 public:
  virtual ~CentreLink() = default;
  virtual int members() const = 0;
  virtual int member() const = 0;
  /// The centre itself, of replica 1; nullptr for all others.
  virtual Centre* owned() = 0;
  /// Calls Centre::serve(), after all that came there before.
  virtual ServerAnswer visit(Push push) = 0;
  /// Calls Centre::bring() and take().
  virtual std::int64_t bring(Push push) = 0;
  virtual MergeResult take(bool told) = 0;
  /// Calls Centre::deal().
  virtual std::optional<std::int64_t> deal(std::int64_t first,
                                           std::int64_t end) = 0;
  /// Calls Centre::arrive() and await_rest().
  virtual void arrive(Tensors statistics) = 0;
  virtual void await_rest() = 0;
  /// The replica has done its share, and leaves without a failure.
  virtual void finish() = 0;
};

}  // namespace sluice
