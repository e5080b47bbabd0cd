#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lib/base/channel.h"
#include "lib/tensors/tensors.h"
#include "lib/updates/transform.h"

namespace sluice {

/// What a replica brings to the centre of its block.
struct Push {
  int member = 1;  ///< the replica, from 1
  /// Gradients or weights, in the order of the parameters; not to be written.
  Tensors tensors = {};
  /// Of gradients: the update that they are for. Its staleness in updates is in
  /// those of the centre, as far as the replica knows: until its last pull.
  UpdateInfo info = {};
  /// The centre's clock (Served::clock) at that pull.
  std::int64_t clock = 0;
};

/// What it takes away.
struct Served {
  Tensors tensors = {};
  std::int64_t place = 0;  ///< of its push among all that were served, from 1
  // Of gradients:
  double rate = 0;          ///< with which the centre steps by them
  std::int64_t clock = 0;   ///< updates that the centre has made
  std::int64_t missed = 0;  ///< of these, between the last pull and this push
};

/// What the centre of a block makes of what its replicas bring, one after the
/// other. Used by one thread at a time.
class CentreRule {
 public:
  virtual ~CentreRule() = default;
  /// Training begins with these weights, which are of that clock, unless
  /// state() was restored.
  virtual void begin(const Tensors& weights, std::int64_t clock) = 0;
  /// Returns what the replica takes away, but for its place: tensors that
  /// nobody writes any more.
  virtual Served serve(Push push) = 0;
  /// The weights that the centre has, new tensors.
  virtual Tensors consensus() const = 0;
  /// Tensors that go on over a checkpoint, and are restored in place.
  virtual NamedTensors state() const = 0;
};

/// The centre of a block's replicas when all have come to it and none has gone
/// on.
struct AtRest {
  Tensors weights = {};
  Tensors statistics = {};  ///< sums of what all have brought
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

  // Of its owner, replica 1:

  /// Before all else. names: of the parameters.
  void own(std::unique_ptr<CentreRule> rule, std::vector<std::string> names);
  /// From now on it serves. weights: those that training begins with, which are
  /// of that clock; empty: state() was restored.
  void open(const Tensors& weights, std::int64_t clock);
  /// As it last was at rest; before that, as it is.
  NamedTensors state() const;
  const AtRest& at_rest() const { return at_rest_; }
  /// Bytes of all that it keeps: weights, the optimizer's state, what replicas
  /// have taken, and as much again of when it last was at rest.
  std::int64_t kept_bytes() const;

  // Of each replica:

  /// Waits until it serves. Throws PeerGone when another replica has left,
  /// LinkError when the deadline passes.
  Served serve(Push push);
  /// The replica brings nothing more until all have come so far.
  void arrive(int member, Tensors statistics);
  /// Waits until all have come so far as often as the caller, `times`.
  void await_rest(std::int64_t times);
  /// The replica fails: those who wait for anything wait in vain. why: what
  /// went wrong at the centre, if that is known.
  void leave(int member, const std::string& why = {});
  /// What went wrong there, and for which replica: what the others are thrown,
  /// as a UserError. Empty: nothing has, or a replica alone knows it.
  std::string failure() const;

 private:
  void wait(std::unique_lock<std::mutex>& lock, const char* what,
            const std::function<bool()>& is_over);
  void check_all_are_there() const;
  std::string failure_text() const;
  NamedTensors live_state() const;

  const Deadline deadline_;
  const std::string name_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::unique_ptr<CentreRule> rule_;
  std::vector<std::string> names_;
  at::Tensor served_;  // [1]: pushes
  bool is_open_ = false;
  /// The first replica that has left, or that was failed here; 0: none.
  int gone_ = 0;
  std::string why_;                  // of that one
  std::vector<Tensors> statistics_;  // by replica, of those that have arrived
  int arrived_ = 0;
  std::int64_t rests_ = 0;
  AtRest at_rest_;
};

/// How one replica reaches the centre of its block. Used by one thread.
class CentreLink {
 public:
  virtual ~CentreLink() = default;
  virtual int members() const = 0;
  virtual int member() const = 0;
  /// The centre itself, of replica 1; nullptr for all others.
  virtual Centre* owned() = 0;
  /// Centre::serve(), after all that came there before.
  virtual Served visit(Push push) = 0;
  /// Centre::arrive() and await_rest().
  virtual void arrive(Tensors statistics) = 0;
  virtual void await_rest() = 0;
  /// The replica has done all it had to do, and leaves nobody alone.
  virtual void finish() = 0;
};

}  // namespace sluice
