#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "lib/tensors/gpu/device_graph.h"
#include "lib/tensors/layouts.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// Operations on tensors of a GPU that are a graph once a few calls in a row,
/// with the same layouts and constants, have run as ever: then a call copies
/// its operands into the graph's memory and replays it. Other calls run as
/// ever, and a few of them make another graph.
class GraphedFunction {
 public:
  using Work = std::function<Tensors(const Tensors& operands)>;

  /// Numbers that `work` has from elsewhere, and where tensors lie that it uses
  /// beside the operands.
  struct Constants {
    std::vector<double> numbers = {};
    std::vector<const void*> addresses = {};

    bool operator==(const Constants&) const = default;
  };

  /// What `work` gives; undefined operands are given as such. The next call may
  /// overwrite it. On CPUs no graph is made.
  Tensors operator()(const Tensors& operands, const Constants& constants,
                     const Work& work);

 private:
  void capture(const Tensors& operands, const Work& work);

  struct Call {
    std::vector<Layout> layouts = {};
    Constants constants = {};

    bool operator==(const Call&) const = default;
  };

  Call last_;               // the last call
  std::int64_t calls_ = 0;  // before it, like it
  Call captured_;
  Tensors operands_;
  std::unique_ptr<DeviceGraph> graph_;
  Tensors results_;
};

}  // namespace sluice
