#include "auxiliary_heads/synthesizers/synthesizers.h"

#include <array>

#include "lib/base/error.h"

namespace sluice {

// Each in the file of its name.
std::shared_ptr<Synthesizer> linear_synthesizer(
    const SynthesizerOptions& options, const Site& site);
std::shared_ptr<Synthesizer> conv_synthesizer(const SynthesizerOptions& options,
                                              const Site& site);

namespace {

/// A new kind is one source file and one row.
struct Kind {
  std::size_t dimensions;  ///< of the features of a sample
  std::shared_ptr<Synthesizer> (*make)(const SynthesizerOptions&, const Site&);
};
constexpr std::array kKinds = {
    Kind{1, linear_synthesizer},  // [C]
    Kind{2, linear_synthesizer},  // [T, C], place by place
    Kind{3, conv_synthesizer},    // [C, H, W]
};

}  // namespace

void SynthesizerOptions::describe(Fields& fields) {
  fields.key("hidden", hidden,
             {.text = "layers before the last one", .min = 0, .max = 2});
  fields.key(
      "width", width,
      {.text = "of the hidden layers on flat features and texts; on maps "
               "they have the features' channels",
       .min = 1,
       .max = 1e6});
  fields.key("label", label,
             {.text = "the synthesizer is told the labels (cDNI)"});
  fields.key("random_bias", random_bias,
             {.text = "the last layer's bias is drawn, as in published code: "
                      "by default it begins at zero, as its weights do, so "
                      "that the first signal is zero"});
}

void zero_last_layer(torch::nn::Module& last,
                     const SynthesizerOptions& options) {
  for (const auto& parameter : last.named_parameters())
    if (parameter.key() != "bias" || !options.random_bias)
      parameter.value().detach().zero_();
}

MakeSynthesizer configure_synthesizer(Fields& options) {
  SynthesizerOptions chosen;
  chosen.describe(options);
  return [chosen](const Site& site) {
    for (const Kind& kind : kKinds)
      if (kind.dimensions == site.features.size())
        return kind.make(chosen, site);
    throw UserError(
        "block {}: there is no synthesizer for features of {} dimensions",
        site.block, site.features.size());
  };
}

}  // namespace sluice
