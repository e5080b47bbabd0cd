#pragma once

#include <cstdint>
#include <string>

#include "experiments/api/sluice.h"
#include "experiments/config/experiment.h"
#include "tests/experiments/api/small_network.h"

/// Networks with replicas, and experiments that train the same layers.
namespace sluice::replica_network {

/// Keys of a config on its replicas.
struct Rules {
  const char* name = "";
  const char* replicas = "";      ///< of the table [replicas]
  const char* more = "";          ///< other keys
  const char* of_network = "";    ///< those of the network alone
  const char* of_optimizer = "";  ///< beside rate and momentum
};

/// For the names of tests.
void PrintTo(const Rules& rules, std::ostream* out);

inline constexpr std::int64_t kTurns = 9;

/// An experiment of two blocks, with 40 batches of 8 samples in an epoch.
Experiment experiment_of(const Rules& rules);

/// A network of the experiment's layers, weights and replicas.
NetworkOptions options_of(const Experiment& experiment, const Rules& rules,
                          const std::string& engine);

/// The batches of a turn of all replicas, one after the other.
Batch turn_of(const Experiment& experiment, std::int64_t turn);

/// Steps from net.turns() on.
void train_on(const Experiment& experiment, Network& net, std::int64_t turns);

/// A folder of the test's own, removed afterwards.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace sluice::replica_network
