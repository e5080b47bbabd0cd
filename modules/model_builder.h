#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/blocks/layer.h"
#include "modules/chain.h"
#include "modules/dropout.h"

namespace sluice {

enum class Activation : std::uint8_t { relu, leaky_relu, tanh, gelu };

/// A square window that slides over a map; nothing of the map's rest that it
/// doesn't fill is seen.
struct SlidingWindow {
  std::int64_t size = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
};

enum class Pooling : std::uint8_t { max, average };

/// Whether a model takes texts, [T], whose tokens an embedding makes [T, C].
enum class Texts : std::uint8_t { refused, taken };

/// A step of an entry that is not among the builder's. Its functions may be
/// called for inputs of several shapes, those of a sample.
struct OwnStep {
  std::string name = {};  ///< for people
  /// Of the output; throws UserError for an input that the step can't take.
  std::function<SampleShape(const SampleShape& input)> output = {};
  /// Multiply-adds of a sample, as the builder counts them.
  std::function<double(const SampleShape& input)> flops = {};
  /// Adds modules, under names that the entry hasn't yet, or functions.
  std::function<void(Chain& chain, const SampleShape& input)> add = {};
};

/// Writes a model's list of layers, entry by entry, and keeps count of the
/// shape and the cost of a sample. An entry is a chain whose members are called
/// "linear", "conv", "norm", "layer_norm", "embedding" and "dropout", so an
/// entry has at most one of each. flops counts a multiply-add for each weight a
/// product uses, two for each element of a norm, one for each element that any
/// other step reads.
class ModelBuilder {
 public:
  /// Throws UserError for a text that is refused.
  explicit ModelBuilder(const SampleSpec& sample, Texts texts = Texts::refused);

  /// Begins an entry; every other call adds to the last one.
  ModelBuilder& entry();
  /// [C, H, W] -> [C H W]; nothing for a flat shape.
  ModelBuilder& flatten();
  /// A linear layer; for a text, one at every place.
  ModelBuilder& linear(std::int64_t outputs);
  ModelBuilder& conv(std::int64_t channels, SlidingWindow window);
  /// BatchNorm for the present shape.
  ModelBuilder& norm();
  /// LayerNorm over the last dimension of [C] or [T, C].
  ModelBuilder& layer_norm();
  /// An embedding: tokens [T] -> [T, width].
  ModelBuilder& embedding(std::int64_t width);
  ModelBuilder& activation(Activation activation);
  ModelBuilder& pool(Pooling pooling, SlidingWindow window);
  /// [C, H, W] -> [C], the mean over all pixels.
  ModelBuilder& global_average_pool();
  /// Sluice's dropout; no layer for p = 0.
  ModelBuilder& dropout(double p, DropoutUnit unit = DropoutUnit::element);
  ModelBuilder& own(const OwnStep& own);
  /// Adds an entry that is a layer of its own, not a chain.
  ModelBuilder& layer(LayerSpec layer);

  /// Shape of a sample after the layers added so far.
  const SampleShape& shape() const { return shape_; }

  /// Whether the window fits on the map at hand.
  bool fits(const SlidingWindow& window) const;
  /// Shape that the last entry must give: [classes], of texts [T, classes].
  SampleShape target() const;

  /// The model, whose last output must be target().
  Model finish();

 private:
  using Part = std::function<void(Chain&)>;
  using Request = std::function<void(ModelBuilder&, std::int64_t stride)>;

  /// Adds to the last entry, once shape_ is that of the output.
  void step(std::string_view name, double flops, Part part);
  /// Request for the last entry, to be repeated for another input.
  void remember(Request request);
  LayerSpec finished(std::size_t entry) const;
  /// Sets shape_ to what a window leaves of it.
  void slide(std::int64_t channels, const SlidingWindow& window);
  std::int64_t elements() const;

  Model model_;
  SampleShape shape_;
  std::vector<std::vector<Part>> parts_;
  std::vector<std::vector<Request>> requests_;
};

}  // namespace sluice
