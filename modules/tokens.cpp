#include "modules/tokens.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lib/base/error.h"

namespace sluice {

PatchGrid patch_grid(const SampleSpec& sample, std::int64_t size,
                     std::string_view model) {
  const SampleShape& shape = sample.shape;
  if (sample.is_text || shape.size() != 3) {
    throw UserError(
        "{} takes images of shape [C, H, W], the data are {} of shape [{}]; "
        "use another data set or another model (`sluice list models`)",
        model, sample.is_text ? "texts" : "samples", fmt::join(shape, ", "));
  }
  if (shape[1] % size != 0 || shape[2] % size != 0) {
    throw UserError(
        "{}: patches of {}x{} pixels don't tile images of {}x{}; set "
        "model.patch to a divisor of both",
        model, size, size, shape[1], shape[2]);
  }
  return {.channels = shape[0],
          .size = size,
          .count = (shape[1] / size) * (shape[2] / size)};
}

torch::nn::Conv2d patch_projection(const PatchGrid& grid, std::int64_t width) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(grid.channels, width, grid.size)
          .stride(grid.size));
}

double patch_flops(const PatchGrid& grid, std::int64_t width) {
  return static_cast<double>(grid.count * width) *
         static_cast<double>(grid.channels * grid.size * grid.size);
}

at::Tensor tokens_of(const at::Tensor& maps) {
  return maps.flatten(2).transpose(1, 2).contiguous();
}

TokenClassifier::TokenClassifier(const TokenClassifierOptions& options)
    : pooling_(options.pooling),
      deviation_(options.deviation),
      norm_(std::make_shared<LayerNorm>(options.width, /*bias=*/true,
                                        options.norm_epsilon)),
      linear_(options.width, options.classes) {
  register_module("norm", norm_);
  register_module("linear", linear_);
}

void TokenClassifier::initialise(std::uint64_t key) {
  initialise_normal(*this, key, deviation_);
}

// The norm is one of each token by itself: only what is seen is normalised.
Tensors TokenClassifier::forward(const Tensors& inputs, const Pass& /*pass*/) {
  const at::Tensor& tokens = inputs.front();  // [N, T, C]
  const at::Tensor seen = pooling_ == TokenPooling::first
                              ? norm_->forward(tokens.select(1, 0))
                              : norm_->forward(tokens).mean(1);  // [N, C]
  return {linear_(seen)};
}

LayerSpec token_classifier(const TokenClassifierOptions& options,
                           std::int64_t places) {
  const bool is_mean = options.pooling == TokenPooling::mean;
  const auto normalised =
      static_cast<double>((is_mean ? places : 1) * options.width);
  return {
      .name = fmt::format("norm, {}, linear {}->{}",
                          is_mean ? "mean of tokens" : "first token",
                          options.width, options.classes),
      .make = [options] { return std::make_shared<TokenClassifier>(options); },
      // Two operations for each element of the norm, one more where the mean
      // reads it.
      .flops = static_cast<double>(options.width * options.classes) +
               normalised * (is_mean ? 3 : 2),
      .output = {options.classes}};
}

}  // namespace sluice
