// AugLocal (Ma et al., ICLR 2024, arXiv:2402.17318): the head is a small copy
// of what stands above: of the hidden layers above block k's last one, l, those
// at round(l + i (L - l) / depth), i = 1..depth, L being the last of them, with
// weights of their own; then a global average and a linear classifier, trained
// with the run's loss. Layers are counted as the model's list does, the
// classifier is no hidden layer, and where maps become flat features the hidden
// layers end. With `pyramid` the depth shrinks linearly from block to block:
// max(1, round(depth (1 - r) + r)), r = pyramid (k - 1) / (K - 2).
//
// A copy takes what the copy below it gives. Where it would leave a larger map
// than the layer that it was copied from, because layers between them were left
// out, its convolution goes in steps of two.
//
// Near the top the head has as many layers as are left, as in the authors'
// code. In the paper the last depth + 1 hidden layers are one block: that is a
// matter of the config's `blocks`. Deviations: residual blocks keep the model's
// own kind of shortcut (theirs: projections); no BatchNorm before the
// classifier at depth 1.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "auxiliary_heads/boundary_site.h"
#include "lib/base/error.h"
#include "lib/base/random.h"
#include "lib/blocks/adapters.h"
#include "lib/blocks/fused_linear.h"
#include "lib/tensors/pooling.h"

namespace sluice {
namespace {

struct AugLocalOptions {
  std::int64_t depth = 2;
  double pyramid = 0;

  void describe(Fields& fields) {
    fields.key("depth", depth,
               {.text = "layers that are copied from those above; the paper's "
                        "last depth + 1 hidden layers form one block, which is "
                        "for `blocks` to say",
                .min = 1});
    fields.key("pyramid", pyramid,
               {.text = "how much of the depth is lost from the first head to "
                        "the last: 0 nothing, 1 all but one layer; the paper's "
                        "tau, 0.5 there",
                .min = 0,
                .max = 1});
  }
};

/// The nearest whole number; halves go to the even one, as Python's round()
/// does.
std::int64_t rounded(double value) {
  return std::llrint(value);
}

std::int64_t depth_at(const BoundarySite& site,
                      const AugLocalOptions& options) {
  const double heads = static_cast<double>(std::max<std::int64_t>(
      site.blocks - 2, 1));  // a single one has the full depth
  const double r =
      options.pyramid * static_cast<double>(site.block - 1) / heads;
  return std::max<std::int64_t>(
      1, rounded(static_cast<double>(options.depth) * (1 - r) + r));
}

/// The last hidden layer whose output is of the features' kind.
std::int64_t last_hidden_layer(const BoundarySite& site) {
  std::int64_t last = site.layer;
  for (auto i = site.layer + 1; i + 1 < std::ssize(site.model->layers); ++i) {
    if (site.model->layers[static_cast<std::size_t>(i)].output.size() !=
        site.features.size())
      break;
    last = i;
  }
  return last;
}

std::vector<std::int64_t> copied_layers(const BoundarySite& site,
                                        std::int64_t depth) {
  const std::int64_t above = last_hidden_layer(site) - site.layer;
  if (above == 0)
    throw UserError(
        "[aug_local] block {} ends with the last hidden layer of its kind, so "
        "there is none above to copy: let `blocks` give layer {} to the block "
        "above, or choose another head for this boundary",
        site.block, site.layer);
  depth = std::min(depth, above);
  std::vector<std::int64_t> layers;
  for (std::int64_t i = 1; i <= depth; ++i)
    layers.push_back(
        rounded(static_cast<double>(site.layer) +
                static_cast<double>(above) / static_cast<double>(depth) *
                    static_cast<double>(i)));
  return layers;
}

bool is_larger_map(const SampleShape& one, const SampleShape& other) {
  return one.size() == 3 && (one[1] > other[1] || one[2] > other[2]);
}

/// The layer, made for features of that shape.
LayerSpec copy_of(const BoundarySite& site, std::int64_t index,
                  const SampleShape& input) {
  const auto place = static_cast<std::size_t>(index);
  const LayerSpec& layer = site.model->layers[place];
  if (input == site.model->layers[place - 1].output) return layer;
  if (!layer.for_input)
    throw UserError(
        "[aug_local] block {}: layer {} ({}) can't be made for other inputs "
        "than its own; choose a depth that leaves out no layer, or another "
        "head",
        site.block, index, layer.name);
  LayerSpec copy = layer.for_input(input, 1);
  if (is_larger_map(copy.output, layer.output))
    copy = layer.for_input(input, 2);
  return copy;
}

class AugLocalHead final : public Head {
 public:
  AugLocalHead(const BoundarySite& site, const AugLocalOptions& options)
      : loss_(site.loss), layer_(site.layer) {
    const std::uint64_t key = head_key(site, "aug_local");
    SampleShape shape = site.features;
    for (const std::int64_t index :
         copied_layers(site, depth_at(site, options))) {
      const LayerSpec spec = copy_of(site, index, shape);
      const std::string name = fmt::format("layer{}", layers_.size() + 1);
      layers_.push_back(register_module(
          name, trained_layer(spec, random_key({key, key_part(name)}))));
      shape = spec.output;
    }
    classifier_ =
        register_module("classifier", FusedLinear(shape.front(), site.classes));
    initialise_parameters(*classifier_,
                          random_key({key, key_part("classifier")}));
  }

  HeadResult forward(const Tensors& features,
                     const HeadInputs& beside) override {
    Tensors values = features;  // [N, C] or [N, C, H, W]
    Pass pass = beside.pass;
    pass.layer = layer_;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      // Masks of a copy are its own, not those of the layer in the model.
      pass.seed = random_key({beside.pass.seed, key_part("aug_local"), i});
      values = layers_[i]->forward(values, pass);
    }
    at::Tensor x = values.front();
    if (x.dim() == 4) x = pixel_mean(x);
    const at::Tensor logits = classifier_(x);  // [N, classes]
    return {loss_(logits, beside.labels), logits};
  }

 private:
  Loss loss_;
  std::int64_t layer_;
  std::vector<std::shared_ptr<Layer>> layers_;
  FusedLinear classifier_ = nullptr;
};

}  // namespace

MakeHead aug_local_head(Fields& fields) {
  AugLocalOptions options;
  options.describe(fields);
  return [options](const BoundarySite& site) {
    check_features(site, "aug_local");
    SLUICE_CHECK(site.model != nullptr, "the site above block {} has no model",
                 site.block);
    return std::make_shared<AugLocalHead>(site, options);
  };
}

}  // namespace sluice
