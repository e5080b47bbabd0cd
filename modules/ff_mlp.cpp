// The fully connected net of the Forward-Forward algorithm (Hinton 2022,
// arXiv:2212.13345). A layer takes the direction of its input alone, its length
// being what the layer below has learned: x / rms(x), then linear, ReLU; h goes
// on as it is, and the goodness of a layer is the sum of its h^2.
//
// It sees V variants of each sample, which differ in the label that is written
// into them (modules/label_in_sample.h): activations are [N, V, C]. In training
// the source makes V = 2, the right label and a wrong one, and the last layer
// gives its own goodness, [N, 2]. In evaluation the first layer writes in every
// class, V = classes, and the last one gives the goodness of all layers but the
// first, which knows the label from its input, [N, classes]: the class that
// the whole net likes best wins. So h_k is a pair (h, goodness so far) there.
//
// Each boundary wants local_loss with the head `forward_forward`, each block
// one layer, the run the loss `goodness`. Other policies mean what they say:
// with backprop the net learns the goodness of its last layer as a whole.
#include <memory>
#include <vector>

#include <ATen/ops/arange.h>
#include <ATen/ops/relu.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lib/base/error.h"
#include "lib/blocks/fused_linear.h"
#include "modules/label_in_sample.h"
#include "modules/models.h"

namespace sluice {
namespace {

using at::Tensor;

struct Place {
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  std::int64_t classes = 0;
  bool is_first = false;
  bool is_last = false;
};

class ForwardForwardLayer final : public Layer {
 public:
  explicit ForwardForwardLayer(const Place& place)
      : place_(place), linear_(place.inputs, place.outputs) {
    register_module("linear", linear_);
  }

  Tensors forward(const Tensors& inputs, const Pass& /*pass*/) override {
    const Tensor x =
        place_.is_first ? variants_of(inputs.front()) : inputs.front();
    const Tensor h = at::relu(linear_(direction(x)));  // [N, V, C]
    const Tensor goodness = h.square().sum(-1);        // [N, V]
    if (is_training()) return {place_.is_last ? goodness : h};
    const bool counts = !place_.is_first || place_.is_last;
    Tensor total = counts ? goodness : goodness.new_zeros(goodness.sizes());
    if (inputs.size() > 1) total = total + inputs[1];
    return place_.is_last ? Tensors{total} : Tensors{h, total};
  }

 private:
  static Tensor direction(const Tensor& x) {
    constexpr double kEpsilon = 1e-8;
    return x / (x.square().mean(-1, /*keepdim=*/true).sqrt() + kEpsilon);
  }

  Tensor variants_of(const Tensor& samples) const {
    if (is_training()) {
      if (samples.dim() == 3 && samples.size(2) == place_.inputs)
        return samples;
      throw UserError(
          "ff_mlp trains on pairs [N, 2, {}], each sample with its label and "
          "with a wrong one (with_labels), not on [{}]",
          place_.inputs, fmt::join(samples.sizes(), ", "));
    }
    const Tensor every = at::arange(
        place_.classes, at::TensorOptions(at::kLong).device(samples.device()));
    return with_labels(samples, every.expand({samples.size(0), place_.classes}),
                       place_.classes);
  }

  Place place_;
  FusedLinear linear_;
};

LayerSpec layer(const Place& place) {
  constexpr std::int64_t kVariants = 2;
  return {
      .name = fmt::format("norm, linear {}->{}", place.inputs, place.outputs),
      .make = [place] { return std::make_shared<ForwardForwardLayer>(place); },
      .flops = static_cast<double>(kVariants *
                                   (place.inputs * place.outputs +
                                    2 * place.inputs + 3 * place.outputs)),
      .output = place.is_last ? SampleShape{place.classes}
                              : SampleShape{kVariants, place.outputs}};
}

Model make_ff_mlp(const std::vector<std::int64_t>& hidden,
                  const SampleSpec& sample) {
  if (sample.is_text)
    throw UserError("ff_mlp takes images or vectors, the data are text");
  std::int64_t inputs = 1;
  for (const std::int64_t size : sample.shape) inputs *= size;
  if (sample.classes < 2 || sample.classes > inputs)
    throw UserError(
        "ff_mlp writes the label over the first values of a sample: it needs "
        "2 classes or more, and a value for each; there are {} classes and {} "
        "values",
        sample.classes, inputs);
  Model model{.layers = {}, .sample = sample, .trains_on_pairs = true};
  for (std::size_t i = 0; i < hidden.size(); ++i) {
    model.layers.push_back(layer({.inputs = inputs,
                                  .outputs = hidden[i],
                                  .classes = sample.classes,
                                  .is_first = i == 0,
                                  .is_last = i + 1 == hidden.size()}));
    inputs = hidden[i];
  }
  return model;
}

}  // namespace

MakeModel ff_mlp(Fields& fields) {
  std::vector<std::int64_t> hidden = {256, 256};
  fields.key("hidden", hidden,
             {.text = "widths of the layers; there are no others", .min = 1});
  if (hidden.empty()) fields.reject("hidden", "at least one layer is needed");
  return [hidden](const SampleSpec& sample) {
    return make_ff_mlp(hidden, sample);
  };
}

}  // namespace sluice
