#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "lib/boundaries/codecs/codec.h"
#include "lib/boundaries/codecs/coded.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// The block of a boundary that an end belongs to.
enum class BoundarySide : std::uint8_t { below, above };

/// The codecs of a boundary, with the ends that the block on one side of it
/// has: of codecs with a state. Used by one thread.
class CodedBoundary {
 public:
  /// Throws UserError as the codecs' ends do.
  CodedBoundary(BoundaryCodecs codecs, const CodecSite& site,
                BoundarySide side);

  /// For messages of training; `slot` of the batch in its turn. `samples`: of
  /// the batch, where the sender knows them.
  Coding activation(std::int64_t slot, at::Tensor samples = {}) const;
  Coding gradient(std::int64_t slot) const;
  /// For messages whose codes depend on nothing before: activations of
  /// evaluations, and gradients that are sent again.
  Coding lone_activation() const { return {codecs_.of_evaluations()}; }
  Coding lone_gradient() const { return {codecs_.down.get()}; }
  /// The codec of activations, if there is one.
  const Codec* up() const { return codecs_.up.get(); }
  /// Whether the block's gradients are encoded with a state.
  bool remembers_gradients() const { return down_ != nullptr; }

  /// Adds what the ends remember, as "codecs.<layer>.<direction>.<end>.*", by
  /// the layer below the boundary.
  void save(NamedTensors& all) const;
  /// Takes what there is of it among the tensors of a checkpoint.
  void restore(const NamedTensors& state);
  std::int64_t bytes() const;

 private:
  std::string name_of(std::string_view direction, bool sends) const;

  BoundaryCodecs codecs_;
  std::int64_t layer_;
  BoundarySide side_;
  std::unique_ptr<CodecEnd> up_;    // nullptr: without a state
  std::unique_ptr<CodecEnd> down_;  // likewise
};

}  // namespace sluice
