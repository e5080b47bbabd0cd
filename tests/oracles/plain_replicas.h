#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "experiments/data/order/sample_source.h"
#include "lib/tensors/tensors.h"
#include "tests/experiments/helpers/training.h"
#include "tests/oracles/meetings.h"

namespace sluice::plain_replicas {

inline constexpr std::int64_t kTurns = 30;
inline constexpr std::int64_t kBatchSize = 16;

/// How a network of one replica trains.
struct Method {
  std::string name;
  std::string lines;
  std::int64_t micro_batches = 1;
  bool is_local = false;
  /// Block 1 of 2 applies a turn's gradient one turn later.
  bool is_delayed = false;
  bool drains = true;  ///< and that of the last turn after it
};

void PrintTo(const Method& method, std::ostream* out);

class PlainNet;

/// The replicas of a whole run of three linear layers in one block or two,
/// trained by that method.
class PlainReplicas {
 public:
  /// `of`: the same run with one replica, whose first weights and whose batches
  /// they share.
  PlainReplicas(const Training& of, const Method& method, int replicas,
                const MakeMeeting& make);

  void train();

  /// By Sluice's names.
  NamedTensors weights(int replica) const;

 private:
  std::shared_ptr<PlainNet> first_net(const Training& of) const;
  /// By block and replica, all at the weights with which the turn begins.
  std::map<int, std::vector<Tensors>> gradients_of(std::int64_t turn);
  /// Gradients of the turn's micro-batches, one after the other: the loss of
  /// each counts by its share of the samples. All of it by a factor, that of
  /// the batch among those of the turn.
  Tensors sum_of_parts(PlainNet& net, const Batch& batch, double weight) const;
  void update(int block, const std::vector<Tensors>& gradients);

  Method method_;
  std::unique_ptr<SampleSource> source_;
  std::vector<std::shared_ptr<PlainNet>> nets_;  // by replica
  std::map<int, Members> members_;               // by block
  std::map<int, std::unique_ptr<Meeting>> meetings_;
};

}  // namespace sluice::plain_replicas
