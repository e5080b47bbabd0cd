#pragma once

#include <string>
#include <vector>

#include "experiments/api/sluice.h"
#include "lib/blocks/source.h"

namespace sluice {

/// Three blocks of plain modules for [N, 6] and 4 classes, cut at layers 2 and
/// 4; the layers begin with the same weights each time.
NetworkOptions small_network(std::vector<Choice> boundaries,
                             std::string settings = "");

/// Batch t of a made-up data set: 8 samples.
Batch small_batch(std::int64_t t);

/// Steps with the batches from net.turns() on.
void train(Network& net, std::int64_t steps);

/// What `call` throws as a UserError; empty when it doesn't.
template <class Call>
std::string complaint_of(Call call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace sluice
