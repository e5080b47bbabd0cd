// The VGG-like nets of Nokland & Eidnes (ICML 2019, arXiv:1901.06656): 3x3
// convolutions, each with BatchNorm and a nonlinearity, 2x2 max pools between
// some of them, a hidden linear layer of 1024 and the output. Four pools: 32
// pixels become 2, 28 become 1. Their 2x and 3x nets are width = 2 and 3, which
// multiplies the channels and not the linear layer.
#include <span>
#include <string>

#include "modules/model_builder.h"
#include "modules/models.h"

namespace sluice {
namespace {

constexpr std::int64_t kPool = 0;

// Channels of the convolutions, from the input up.
constexpr std::int64_t kVgg8b[] = {128,   256, kPool, 256, 512,
                                   kPool, 512, kPool, 512, kPool};
constexpr std::int64_t kVgg11b[] = {128,   128, 128, 256,   kPool, 256,  512,
                                    kPool, 512, 512, kPool, 512,   kPool};

struct VggOptions {
  double width = 1;
  std::int64_t hidden = 1024;
  Activation activation = Activation::relu;
  double dropout = 0;
  bool head_before_pool = true;

  void describe(Fields& fields) {
    fields.key("width", width,
               {.text = "multiplies the channels of all convolutions",
                .min = 0.01,
                .max = 100});
    fields.key("hidden", hidden,
               {.text = "width of the hidden linear layer", .min = 1});
    fields.key(
        "activation", activation,
        {{"relu", Activation::relu}, {"leaky_relu", Activation::leaky_relu}},
        {.text = "activation after each layer but the last; the paper's "
                 "local losses with similarity matching use leaky_relu"});
    fields.key("dropout", dropout,
               {.text = "probability of dropping a channel of a convolution, "
                        "or an output of the hidden layer",
                .min = 0,
                .max = 0.99});
    fields.key(
        "head_before_pool", head_before_pool,
        {.text = "cut as published: pool and dropout belong to the layer "
                 "above them, so that an auxiliary head sees features "
                 "before both; false: they end their own layer, and "
                 "less data crosses a boundary"});
  }
};

/// Pool and dropout between two layers with weights.
struct LayerGap {
  bool pool = false;
  double dropout = 0;

  /// Adds pool and dropout to the last entry of the list; then nothing lies
  /// there any more.
  void add_to(ModelBuilder& builder) {
    constexpr SlidingWindow kWindow = {.size = 2, .stride = 2, .padding = 0};
    if (pool) builder.pool(Pooling::max, kWindow);
    builder.dropout(dropout, DropoutUnit::channel);
    *this = {};
  }
};

Model make_vgg(std::span<const std::int64_t> plan, const VggOptions& options,
               const SampleSpec& sample) {
  constexpr SlidingWindow kConvolution = {.size = 3, .stride = 1, .padding = 1};
  ModelBuilder builder(sample);
  LayerGap between;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    if (plan[i] == kPool) continue;
    builder.entry();
    between.add_to(builder);
    builder
        .conv(static_cast<std::int64_t>(static_cast<double>(plan[i]) *
                                        options.width),
              kConvolution)
        .norm()
        .activation(options.activation);
    between = {.pool = i + 1 < plan.size() && plan[i + 1] == kPool,
               .dropout = options.dropout};
    if (!options.head_before_pool) between.add_to(builder);
  }
  builder.entry();
  between.add_to(builder);
  builder.flatten()
      .linear(options.hidden)
      .norm()
      .activation(options.activation);
  between = {.dropout = options.dropout};
  if (!options.head_before_pool) between.add_to(builder);
  builder.entry();
  between.add_to(builder);
  return builder.linear(sample.classes).finish();
}

MakeModel configure(std::span<const std::int64_t> plan, Fields& fields) {
  VggOptions options;
  options.describe(fields);
  return [plan, options](const SampleSpec& sample) {
    return make_vgg(plan, options, sample);
  };
}

}  // namespace

MakeModel vgg8b(Fields& fields) {
  return configure(kVgg8b, fields);
}

MakeModel vgg11b(Fields& fields) {
  return configure(kVgg11b, fields);
}

}  // namespace sluice
