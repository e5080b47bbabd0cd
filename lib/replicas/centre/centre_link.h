#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "lib/base/messages/channel.h"
#include "lib/replicas/centre/centre_messages.h"
#include "lib/replicas/centre/centre_visit.h"

namespace sluice {

class CentreHost;

/// How one replica reaches the centre of its block (Centre). Each call waits
/// for the answer, and throws PeerGoneError when another replica or the centre
/// is gone, UserError for what went wrong at the centre. Used by one thread.
class CentreLink {
 public:
  /// name: of the block. host: of the centre, if that is in this process, which
  /// lives as long as any link to it.
  CentreLink(Link link, int member, int members, std::string name,
             std::shared_ptr<CentreHost> host = nullptr);
  /// Without finish() before, the replica is gone.
  ~CentreLink();
  CentreLink(const CentreLink&) = delete;
  CentreLink& operator=(const CentreLink&) = delete;

  int members() const { return members_; }
  int member() const { return member_; }
  /// The centre, if it is in this process.
  std::weak_ptr<CentreHost> host() const { return host_; }
  /// Opens the centre, once; what others say before waits for that.
  void open(const CentreOpening& opening);
  /// Brings a push that is served at once.
  ServerAnswer visit(const Push& push);
  /// With a quorum: brings a push, and returns its place.
  std::int64_t bring(const Push& push);
  /// Waits until that is merged, or until the grace of a quorum is over. told:
  /// a schedule says that it is time.
  MergeResult take(bool told);
  /// Takes what a replica begins with that joins the run.
  CentreEntry enter();
  /// Lets another replica join, at the centre of this process:
  /// CentreHost::admit().
  void admit(int member, std::int64_t life, Link link);
  /// The next batch of those from `first` to before `end`, where a dealer deals
  /// (MicroBatches::by_arrival), at the centre of block 1; nothing: all are
  /// dealt. What a replica has when it is lost is dealt again.
  std::optional<std::int64_t> deal(std::int64_t first, std::int64_t end);
  /// The replica brings nothing more until all have come so far: doesn't wait.
  void arrive(const Tensors& statistics);
  /// Waits until they have.
  void await_rest();
  /// What the centre said at the last rest, to the replica that opened it, or,
  /// where the block has several, to the first one; nothing: to another, or it
  /// hasn't rested yet.
  const std::optional<CentreAtRest>& at_rest() const { return at_rest_; }
  /// As at_rest(), which the way then keeps no more.
  std::optional<CentreAtRest> take_rest() {
    return std::exchange(at_rest_, std::nullopt);
  }
  /// The replica has done its share, and leaves without a failure.
  void finish();

 private:
  Message ask(Message message);
  Message answer_to(CentreMessage said);

  std::shared_ptr<CentreHost> host_;  // goes last
  Link link_;
  const int member_;
  const int members_;
  const std::string name_;
  std::optional<CentreAtRest> at_rest_;
};

}  // namespace sluice
