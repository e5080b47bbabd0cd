#pragma once

#include <map>
#include <memory>
#include <optional>

#include "lib/replicas/centre/centre_link.h"
#include "lib/replicas/centre/centre_visit.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// The ways of one replica to the centres of its block: to the one beside
/// replica 1, or to those beside all hosts (ReplicaExchange::visits_partners).
/// Used by one thread.
class CentreWays {
 public:
  /// By the replica beside which the centre is.
  using Links = std::map<int, std::unique_ptr<CentreLink>>;
  explicit CentreWays(Links links);
  /// To the centre beside replica 1.
  explicit CentreWays(std::unique_ptr<CentreLink> link);

  int members() const { return first().members(); }
  int member() const { return first().member(); }
  /// The centre beside that replica.
  CentreLink& beside(int replica) { return *links_.at(replica); }
  /// The centre beside replica 1, the only one.
  CentreLink& only() { return beside(1); }
  /// The centre that lies with this replica, which opens it; nullptr: none
  /// does.
  CentreLink* own() const;
  /// CentreLink::arrive() at all of them. weights: those that a replica without
  /// a centre had after its last visit.
  void arrive(const Tensors& weights, const Tensors& statistics);
  /// Waits until all have rested.
  void await_rest();
  /// What all replicas agreed on at the last rest, of the first replica;
  /// nothing: of another, or there was none yet.
  const std::optional<CentreAtRest>& agreed() const { return agreed_; }
  /// CentreLink::finish() at all of them.
  void finish();

 private:
  CentreLink& first() const { return *links_.begin()->second; }
  bool are_several() const { return !links_.contains(1); }
  CentreAtRest merged();

  const Links links_;
  std::optional<CentreAtRest> agreed_;
};

}  // namespace sluice
