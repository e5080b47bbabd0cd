// The net on which the DNI and DGL papers and their logs compare methods
// (Jaderberg 2017, arXiv:1608.05343; Belilovsky 2020, arXiv:1901.08164): three
// times [5x5 convolution, BatchNorm, ReLU, 3x3 pool of stride 3], the first
// pool a maximum, the others averages, then a linear layer. 32 -> 10 -> 3 -> 1
// pixels on CIFAR-10, 28 -> 9 -> 3 -> 1 on MNIST.
#include "modules/model_builder.h"
#include "modules/models.h"

namespace sluice {
namespace {

struct Conv3Options {
  std::int64_t channels = 128;
  bool batch_norm = true;
  double dropout = 0;

  void describe(Fields& fields) {
    fields.key("channels", channels,
               {.text = "output channels of each convolution", .min = 1});
    fields.key("batch_norm", batch_norm,
               {.text = "normalise after each convolution"});
    fields.key("dropout", dropout,
               {.text = "probability of dropping an output of a pool",
                .min = 0,
                .max = 0.99});
  }
};

Model make_conv3(const Conv3Options& options, const SampleSpec& sample) {
  constexpr SlidingWindow kConvolution = {.size = 5, .stride = 1, .padding = 2};
  constexpr SlidingWindow kPool = {.size = 3, .stride = 3, .padding = 0};
  ModelBuilder builder(sample);
  for (const Pooling pooling :
       {Pooling::max, Pooling::average, Pooling::average}) {
    builder.entry().conv(options.channels, kConvolution);
    if (options.batch_norm) builder.norm();
    builder.activation(Activation::relu)
        .pool(pooling, kPool)
        .dropout(options.dropout);
  }
  return builder.entry().flatten().linear(sample.classes).finish();
}

}  // namespace

MakeModel conv3(Fields& fields) {
  Conv3Options options;
  options.describe(fields);
  return [options](const SampleSpec& sample) {
    return make_conv3(options, sample);
  };
}

}  // namespace sluice
