#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lib/base/by_block.h"
#include "lib/replicas/centre/centre_visit.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// Copies of tensors, under names that begin with the prefix.
NamedTensors named_copies(const NamedTensors& tensors,
                          const std::string& prefix);
Tensors unnamed_copies(const NamedTensors& tensors);
void copy_into(const NamedTensors& into, const Tensors& from);

/// Throws LinkError where a replica brings another number of tensors than there
/// are parameters.
void check_size(const Push& push, std::size_t parameters);

/// The weights of a centre, and those that each replica has taken last. Used by
/// one thread at a time.
class TakenWeights {
 public:
  TakenWeights(const NamedTensors& parameters, int members);

  /// Begins with these weights for all replicas.
  void begin(const Tensors& weights) const;
  const NamedTensors& weights() const { return weights_; }
  const NamedTensors& by(int member) const { return by_block(taken_, member); }
  /// The replica takes the weights that the centre has now.
  Tensors give(int member) const;
  NamedTensors state() const;

 private:
  NamedTensors weights_;
  std::vector<NamedTensors> taken_;  // by replica
};

}  // namespace sluice
