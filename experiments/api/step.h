#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "lib/metrics/record.h"

namespace sluice {

class NetworkCore;

/// The turn that a call of Network::step() began. Every getter but turn() waits
/// until the turn is done; none may be called after the network's end. Numbers
/// are means over a block's replicas, and NaN where it had none in this turn:
/// no batch to apply yet, no loss of its own, or no update.
class Step {
 public:
  std::int64_t turn() const { return turn_; }
  /// Mean loss of the last block, before its update.
  double loss() const;
  /// Accuracy of the last block, 0..1, before its update.
  double accuracy() const;
  /// Loss and accuracy of block k (from 1), of its local loss for instance.
  double loss(int block) const;
  double accuracy(int block) const;
  /// All figures of block k in replica r (from 1): "loss", "accuracy", "lr",
  /// the "batch" that it applied, staleness in batches ("d_batch") and in
  /// updates
  /// ("d_upd").
  Record record(int block, int replica = 1) const;

 private:
  friend class NetworkCore;
  using Records = std::map<std::pair<int, int>, Record>;  // block, replica

  template <class Figure>
  double mean_of(int block, const Figure& figure) const;

  Step(NetworkCore& network, std::int64_t turn, std::size_t grant,
       std::shared_ptr<Records> records)
      : network_(&network),
        turn_(turn),
        grant_(grant),
        records_(std::move(records)) {}

  NetworkCore* network_;
  std::int64_t turn_;
  std::size_t grant_;  // of the network's
  std::shared_ptr<Records> records_;
};

}  // namespace sluice
