// A small convolutional net that trains in seconds on 28x28 images: 3x3
// convolutions, each with a 2x2 pool, a hidden linear layer and the output.
#include <vector>

#include "modules/model_builder.h"
#include "modules/models.h"

namespace sluice {
namespace {

struct SmallConvOptions {
  std::vector<std::int64_t> channels = {16, 32};
  std::int64_t hidden = 128;
  bool batch_norm = false;
  double dropout = 0;

  void describe(Fields& fields) {
    fields.key("channels", channels,
               {.text = "output channels of each convolution", .min = 1});
    fields.key("hidden", hidden,
               {.text = "width of the hidden linear layer; 0: none", .min = 0});
    fields.key("batch_norm", batch_norm,
               {.text = "normalise before each activation"});
    fields.key("dropout", dropout,
               {.text = "probability of dropping an output of the hidden layer",
                .min = 0,
                .max = 0.99});
  }
};

Model make_small_conv(const SmallConvOptions& options,
                      const SampleSpec& sample) {
  constexpr SlidingWindow kConvolution = {.size = 3, .stride = 1, .padding = 1};
  constexpr SlidingWindow kPool = {.size = 2, .stride = 2, .padding = 0};
  ModelBuilder builder(sample);
  for (const std::int64_t channels : options.channels) {
    builder.entry().conv(channels, kConvolution);
    if (options.batch_norm) builder.norm();
    builder.activation(Activation::relu).pool(Pooling::max, kPool);
  }
  builder.entry().flatten();
  if (options.hidden > 0) {
    builder.linear(options.hidden);
    if (options.batch_norm) builder.norm();
    builder.activation(Activation::relu).dropout(options.dropout).entry();
  }
  return builder.linear(sample.classes).finish();
}

}  // namespace

MakeModel small_conv(Fields& fields) {
  SmallConvOptions options;
  options.describe(fields);
  return [options](const SampleSpec& sample) {
    return make_small_conv(options, sample);
  };
}

}  // namespace sluice
