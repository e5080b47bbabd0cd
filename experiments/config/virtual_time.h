#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/config.h"
#include "lib/blocks/layer.h"
#include "lib/boundaries/codecs/codec.h"
#include "lib/schedules/simulation/costs.h"
#include "lib/tensors/precision.h"
#include "modules/partition.h"

namespace sluice {

struct ReplicaSettings;

/// The section [virtual]: what the clock of engine = "virtual" knows. No number
/// of a run depends on it.
struct VirtualOptions {
  // Seconds; one for all blocks, or one for each. Empty: nothing.
  OpValues<std::vector<double>> seconds = {};
  std::vector<double> head = {};
  double latency = 0;       ///< s
  double bandwidth = 0;     ///< bytes/s; 0: unlimited
  LinkCosts exchange = {};  ///< between replicas
  double jitter = 0;
  Service service = Service::fixed;
  std::int64_t seed = 1;
  std::vector<std::string> slow = {};  ///< "2x1.5"
  bool calibrate = false;

  void describe(Fields& fields);
};

/// Costs of the blocks by the options; the bytes of messages are those of a
/// full batch, of which a turn has `micro_batches`, by the shapes of the model,
/// as the boundary's codec sends them. `top` is where errors are reported.
Costs costs_of(const VirtualOptions& options, const Model& model,
               const Partition& ranges, const Codecs& codecs,
               std::int64_t batch_size, std::int64_t micro_batches,
               Precision precision, const ReplicaSettings& replicas,
               const Fields& top);

/// Bytes of the outputs of a range of layers for so many samples, as they lie
/// in memory.
double bytes_of_features(const Model& model, const LayerRange& range,
                         std::int64_t samples, Precision precision);

}  // namespace sluice
