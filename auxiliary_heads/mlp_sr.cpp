// "MLP-SR" of decoupled greedy learning (Belilovsky et al., ICML 2020,
// arXiv:1901.08164): maps are averaged to a sixteenth of their pixels, pass 1x1
// convolutions, are averaged to 2x2 and flattened; linear layers of that width
// follow, then the classifier. Flat features have the linear layers alone.
// conv_layers = 0 is the paper's "MLP".
#include <memory>
#include <utility>

#include "auxiliary_heads/boundary_site.h"
#include "auxiliary_heads/stacks.h"
#include "lib/blocks/fused_linear.h"
#include "lib/tensors/pooling.h"

namespace sluice {
namespace {

struct MlpSrOptions {
  std::int64_t conv_layers = 3;
  std::int64_t mlp_layers = 3;

  void describe(Fields& fields) {
    fields.key("conv_layers", conv_layers,
               {.text = "1x1 convolutions; flat features have none", .min = 0});
    fields.key("mlp_layers", mlp_layers,
               {.text = "linear layers before the classifier", .min = 0});
  }
};

class MlpSrHead final : public Head {
 public:
  MlpSrHead(const BoundarySite& site, const MlpSrOptions& options)
      : loss_(site.loss), is_map_(site.features.size() == 3) {
    const std::int64_t channels = site.features[0];
    if (is_map_) {
      height_ = (site.features[1] + 3) / 4;
      width_ = (site.features[2] + 3) / 4;
      convolutions_ = register_module(
          "convolutions", convolutions(options.conv_layers, channels, 1));
    }
    const std::int64_t inputs = is_map_ ? channels * 2 * 2 : channels;
    mlp_ = register_module("mlp", linear_layers(options.mlp_layers, inputs));
    classifier_ =
        register_module("classifier", FusedLinear(inputs, site.classes));
    initialise_parameters(*this, head_key(site, "mlp_sr"));
    if (options.mlp_layers > 0) {
      normalised_values_ = 1;
    } else if (is_map_ && options.conv_layers > 0) {
      normalised_values_ = height_ * width_;
    }
  }

  HeadResult forward(const Tensors& features,
                     const HeadInputs& beside) override {
    at::Tensor x = features.front();  // [N, C] or [N, C, H, W]
    if (is_training()) check_batch(x, normalised_values_, "mlp_sr");
    if (is_map_) {
      x = average_pool(x, height_, width_);
      x = through(convolutions_, x);
      x = average_pool(x, 2, 2).flatten(1);  // [N, 4 C]
    }
    const at::Tensor logits = classifier_(through(mlp_, x));  // [N, classes]
    return {loss_(logits, beside.labels), logits};
  }

 private:
  Loss loss_;
  bool is_map_;
  std::int64_t height_ = 1;  ///< of the map that is convolved
  std::int64_t width_ = 1;
  /// The least that a sample gives to a channel of a BatchNorm; 2: enough.
  std::int64_t normalised_values_ = 2;
  torch::nn::Sequential convolutions_ = nullptr;
  torch::nn::Sequential mlp_ = nullptr;
  FusedLinear classifier_ = nullptr;
};

}  // namespace

MakeHead mlp_sr_head(Fields& fields) {
  MlpSrOptions options;
  options.describe(fields);
  return [options](const BoundarySite& site) {
    check_features(site, "mlp_sr");
    return std::make_shared<MlpSrHead>(site, options);
  };
}

}  // namespace sluice
