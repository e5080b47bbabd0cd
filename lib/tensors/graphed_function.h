#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "lib/tensors/device_graph.h"
#include "lib/tensors/layouts.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// Operations on tensors of a GPU that are a graph once a few calls with the
/// same layouts have run as ever: then a call copies its operands into the
/// graph's memory and replays it. Calls with other layouts run as ever.
class GraphedFunction {
 public:
  using Work = std::function<Tensors(const Tensors& operands)>;

  /// What `work` gives, which depends on the operands alone; undefined ones are
  /// given as such. The next call may overwrite it. On CPUs no graph is made.
  Tensors operator()(const Tensors& operands, const Work& work);

 private:
  void capture(const Tensors& operands, const Work& work);

  std::vector<Layout> layouts_;  // of the last call, or of the graph
  std::int64_t calls_ = 0;       // with these
  Tensors operands_;
  std::unique_ptr<DeviceGraph> graph_;
  Tensors results_;
};

}  // namespace sluice
