#pragma once

namespace sluice {

/// Lines of a config whose run goes on without a replica, of 20 turns.
struct LossyCase {
  const char* name = "";
  const char* config = "";
  int blocks = 1;
  int replicas = 3;
  bool is_replayed = false;  ///< whatever it was at when it was lost

  /// The last seat, of the last replica.
  int seat() const { return blocks * replicas; }
};

constexpr LossyCase kBackup = {
    "Backup",
    "blocks=1 schedule=free replicas.count=4 replicas.policy=all_reduce "
    "replicas.backup=1 ",
    1, 4};
constexpr LossyCase kQuorum = {
    "Quorum",
    "blocks=2 schedule=free replicas.count=3 replicas.policy=average "
    "replicas.deal=shares "
    "replicas.every=2 replicas.quorum=2 replicas.grace=0.002 ",
    2, 3};
constexpr LossyCase kServer = {
    "Server",
    "blocks=2 schedule=free replicas.count=3 replicas.policy=server "
    "replicas.deal=shares ",
    2, 3, true};
constexpr LossyCase kGossip = {
    "Gossip",
    "blocks=1 schedule=free replicas.count=4 replicas.policy=gossip "
    "replicas.pairs=true replicas.deal=shares ",
    1, 4, true};

}  // namespace sluice
