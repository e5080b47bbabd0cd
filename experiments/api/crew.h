#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "experiments/config/experiment.h"
#include "experiments/runs/assembly.h"
#include "lib/blocks/source.h"
#include "lib/metrics/record.h"
#include "lib/schedules/plan.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// The workers of a network, wherever they run. Used by one thread. After an
/// exception it is good for nothing but its destructor, which ends them.
class Crew {
 public:
  virtual ~Crew() = default;
  /// Every block shall carry out the grant, after those before it; `batch` is
  /// that of its only turn, nullptr when it has none.
  virtual void give(const Grant& grant, const Batch* batch) = 0;
  /// Returns when at most `ahead` grants are not carried out by all blocks.
  /// Throws UserError or LinkError with the block that failed and why.
  virtual void wait(std::size_t ahead) = 0;
  /// The workers' own tensors, as they are after wait(0); nothing when they are
  /// in other processes.
  virtual std::optional<NamedTensors> weights() const = 0;
};

/// What a crew is made of, and where its records go: each on the thread that
/// calls give() or wait().
struct CrewParts {
  const Experiment& experiment;  ///< outlives the crew
  RunFiles files = {};
  std::function<void(const Record&)> on_record = {};
};

/// All in the calling thread, in the order of virtual time.
std::unique_ptr<Crew> make_virtual_crew(const CrewParts& parts);
/// A thread for each block.
std::unique_ptr<Crew> make_thread_crew(const CrewParts& parts);
/// A process for each block: `program` is started anew and finds its config
/// in `folder` (runs/worker_process.h).
std::unique_ptr<Crew> make_process_crew(const CrewParts& parts,
                                        const std::string& program,
                                        const std::string& folder);

}  // namespace sluice
