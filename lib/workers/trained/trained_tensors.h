#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "lib/blocks/block.h"
#include "lib/boundaries/boundary.h"
#include "lib/tensors/tensors.h"
#include "lib/updates/update_chain.h"

namespace sluice {

/// What an end trains apart from the block's optimizer.
struct Learners {
  NamedTensors tensors;
  std::unique_ptr<UpdateChain> update;
};

/// The ends of a block's boundaries in a phase of the timetable.
struct PhaseEnds {
  std::shared_ptr<Lower> lower;
  std::shared_ptr<Upper> upper;
  /// Where the lower end's parameters are in TrainedTensors::tensors().
  std::vector<std::size_t> trained = {};
  std::size_t learners =
      0;  ///< of the lower end: index in TrainedTensors::learners()
  std::size_t upper_learners = 0;  ///< of the upper end: index there too
};

/// All that a block trains: its own parameters, and what the ends of its
/// boundaries have in any phase; what has the same name in two phases is one.
/// Used by one thread.
class TrainedTensors {
 public:
  /// The block outlives it. Ends by phase; phases may share one, and no upper
  /// end is a plain one. Brings what they hold to the block's device. Throws
  /// UserError when two phases have other shapes under one name.
  TrainedTensors(const Block& block, const UpdateOptions& options,
                 const std::vector<std::shared_ptr<Lower>>& lowers,
                 const std::vector<std::shared_ptr<Upper>>& uppers);

  /// Stepped by update(): the block's parameters, then those of lower ends.
  const NamedTensors& tensors() const { return tensors_; }
  /// Parameters of the block, then those that ends train by themselves: all
  /// that replicas keep alike.
  NamedTensors all() const;
  /// Applies the update; the block's own parameters lie in `storage` from now
  /// on, unless it is empty (UpdateChain::apply()).
  double apply(Tensors& gradients, const UpdateInfo& info,
               const Tensors& storage);
  /// Adds to all() tensors, or to the first of them, in place;
  /// nothing: to none.
  void add(const Tensors& terms);
  /// Sets all() tensors, or the first of them and at least tensors(), to values
  /// from elsewhere; `storage` as of apply().
  void assign(const Tensors& values, const Tensors& storage);
  const UpdateChain& update() const { return *update_; }
  /// Options that the update was made from.
  const UpdateOptions& options() const { return options_; }
  const PhaseEnds& ends(std::size_t phase) const { return ends_.at(phase); }
  Learners& learners(std::size_t index) { return learners_.at(index); }
  /// Gradients in the order of tensors(): of the block and of a lower end.
  Tensors in_order(const Tensors& own, const Tensors& of_lower,
                   std::size_t phase) const;

  /// What the block trains and keeps: its own and its ends'.
  NamedTensors weights() const;
  /// Tensors that the block's ends copy from other blocks before they train, by
  /// the names of the originals.
  NamedTensors copied() const;
  /// The state of all optimizers.
  NamedTensors state() const;
  void restore(const NamedTensors& weights, const NamedTensors& state,
               std::string_view source);
  std::int64_t elements() const;  ///< of all that is trained

 private:
  void add_ends(std::shared_ptr<Lower> lower, std::shared_ptr<Upper> upper);
  void continue_buffers(const BoundaryEnd& end);
  std::size_t add_learners(const BoundaryEnd& end);
  void tell_of_other_learners();

  const Block& block_;
  UpdateOptions options_;
  NamedTensors tensors_;
  std::unique_ptr<UpdateChain> update_;
  std::vector<Learners> learners_;
  NamedTensors kept_;            // buffers of ends
  std::vector<PhaseEnds> ends_;  // by phase
};

}  // namespace sluice
