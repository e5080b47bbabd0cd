#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lib/base/table.h"
#include "lib/tensors/tensors.h"

namespace sluice {

class Fields;
struct LayerSpec;

/// Place of a tensor among all that cross a boundary in training.
struct CodedPlace {
  std::string tensor = {};  ///< its name in messages: "h.0", "gradient.0"
  std::int64_t slot = 0;    ///< of the batch among those of its turn, from 0
  /// [N] int64, on the host: the samples of the batch, where the codec wants to
  /// know them (Codec::wants_samples()); else undefined.
  at::Tensor samples = {};
};

/// One end of one direction of a boundary, with what a codec remembers there of
/// the training messages before. A sender calls encode(), a receiver decode(),
/// once for each tensor and in the order of the messages. Used by one thread.
class CodecEnd {
 public:
  virtual ~CodecEnd() = default;
  /// As Codec's, with a state that moves.
  virtual Tensors encode(const at::Tensor& values, const CodedPlace& place) = 0;
  virtual at::Tensor decode(const Tensors& parts, const CodedPlace& place) = 0;
  /// Tensors of a checkpoint, on the host, with names of the end's own.
  virtual NamedTensors state() const = 0;
  /// Takes what state() returned.
  virtual void restore(const NamedTensors& state) = 0;
  virtual std::int64_t bytes() const = 0;
};

/// The boundary for which an end is made.
struct CodecSite {
  std::int64_t boundary = 1;  ///< above block k, from 1
  /// Index of the layer below it in the uncut model, which names its state.
  std::int64_t layer = 0;
  SampleShape features = {};
  std::int64_t samples = 0;  ///< of the training split; 0: unknown
};

/// Writes the floating-point tensors that cross a boundary in fewer bytes, and
/// reads them again. Immutable: any number of threads may use one.
///
/// encode() and decode() are memoryless: what they send of a batch depends on
/// that batch alone. Evaluations are sent so, and by most codecs all batches.
/// One with a state has ends for the batches of training.
///
/// pack() and unpack() in lib/boundaries/codecs/coded.h are how one is used.
class Codec {
 public:
  virtual ~Codec() = default;
  virtual std::string_view name() const = 0;
  /// Whether it makes tensors of this floating-point type smaller; others are
  /// sent as they are.
  virtual bool takes(at::ScalarType type) const = 0;
  /// values: float32, dense, of any shape and order of strides, on any device
  /// that the program has loops for. What is sent of it; the first tensor has
  /// its sizes and strides.
  virtual Tensors encode(const at::Tensor& values) const = 0;
  /// The values again, float32, in the sizes and strides of the first of the
  /// parts, which is dense. Throws LinkError for parts that encode() can't have
  /// made.
  virtual at::Tensor decode(const Tensors& parts) const = 0;

  /// Ends for training; nullptr: encode() and decode() do without a state.
  /// Throw UserError, for the user of a config, where there can't be one.
  ///
  /// A gradient that was under way when a checkpoint was taken is encoded once
  /// more, without the state: encode() of what came must give it unchanged.
  virtual std::unique_ptr<CodecEnd> sender(const CodecSite& /*site*/) const {
    return nullptr;
  }
  virtual std::unique_ptr<CodecEnd> receiver(const CodecSite& /*site*/) const {
    return nullptr;
  }
  /// Which numbers of activations, as they came, were sent: bools of their
  /// sizes. The others have no part in what came, so their gradients are 0.
  /// Undefined: gradients go back to all.
  virtual at::Tensor sent_of(const at::Tensor& /*came*/) const { return {}; }
  /// Whether the ends remember something of each sample: every message of
  /// training then comes to the receiver once, and in order.
  virtual bool wants_samples() const { return false; }
  /// The codec by which plans count bytes, where those of this one depend on
  /// the numbers.
  virtual const Codec& for_plans() const { return *this; }
};

/// The codecs of a boundary; nullptr: tensors are sent unencoded.
struct BoundaryCodecs {
  std::shared_ptr<const Codec> up = nullptr;    ///< of activations
  std::shared_ptr<const Codec> down = nullptr;  ///< of gradients
  /// Adds layers to those below and above the cut, whose weights then belong to
  /// these; they draw their first ones by the key. What they make of the
  /// features is what the codecs encode. Empty: there are none to add.
  std::function<void(LayerSpec& below, LayerSpec& above, std::uint64_t key)>
      add_layers = {};
  bool evaluates_exactly = false;  ///< activations of evaluations aren't coded

  /// The codec of activations in evaluations; nullptr: they go as they are.
  const Codec* of_evaluations() const {
    return evaluates_exactly ? nullptr : up.get();
  }
};

/// The codecs of a run's boundaries, index k-1.
using Codecs = std::vector<BoundaryCodecs>;

/// The directions that a part of a config is about.
struct CodecWays {
  bool up = true;
  bool down = true;
};

/// How a row makes its codec.
struct MakeCodec {
  /// The codec without options; nullptr where there are some.
  std::shared_ptr<const Codec> (*plain)() = nullptr;
  /// Reads the options of one that has some, at once; what it makes for other
  /// directions is not used.
  BoundaryCodecs (*configure)(Fields& options, CodecWays ways) = nullptr;
  bool goes_down = true;        ///< whether gradients can be sent so
  bool goes_both_ways = false;  ///< whether neither direction goes without

  /// The codec of activations, with the defaults of its options.
  std::shared_ptr<const Codec> operator()() const;
};

using CodecRow = Row<MakeCodec>;

/// "none", which makes nullptr, and the others. A new codec is one source file
/// and one row.
std::span<const CodecRow> codecs();

}  // namespace sluice
