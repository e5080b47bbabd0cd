// A plug-in for Sluice: a data set and a head.
#include <torch/nn/modules/linear.h>

#include "experiments/plugins/plugin.h"
#include "lib/base/error.h"

namespace {
using namespace sluice;

/// Points in the plane; the class says in which two quadrants one lies.
struct Points final : Samples {
  Points(std::uint64_t seed, std::int64_t size) : seed_(seed), size_(size) {}
  std::int64_t size() const override { return size_; }
  std::int64_t position(std::int64_t i, EpochKey) const override { return i; }
  Batch batch(std::span<const std::int64_t> indices, EpochKey) const override {
    const at::Tensor inputs = at::empty({std::ssize(indices), 2}, at::kFloat);
    auto* next = inputs.mutable_data_ptr<float>();
    for (const std::int64_t i : indices) {
      KeyedRandom random(random_key({seed_, static_cast<std::uint64_t>(i)}));
      for (int k = 0; k < 2; ++k)
        *next++ = static_cast<float>(random.uniform(-1, 1));
    }
    return {.inputs = inputs, .labels = inputs.prod(1).gt(0).to(at::kLong)};
  }
  std::uint64_t seed_;
  std::int64_t size_;
};

MakeDataSet quadrants(Fields&) {
  const auto split = [](std::uint64_t seed, std::int64_t size) {
    return Split(size, [=] { return std::make_shared<Points>(seed, size); });
  };
  return [=](const std::string&) -> DataSet {
    return {.sample = {{2}, 2}, .train = split(1, 640), .test = split(2, 200)};
  };
}

/// A linear classifier, with logits that are divided by a number.
struct SoftHead final : Head {
  SoftHead(const BoundarySite& site, double divisor) : divisor_(divisor) {
    loss_ = site.loss;
    linear_ = torch::nn::Linear(site.features[0], site.classes);
    register_module("linear", linear_);
    initialise_parameters(*this, head_key(site, "mine_head"));
  }
  HeadResult forward(const Tensors& features,
                     const HeadInputs& beside) override {
    const at::Tensor logits = linear_(features[0]) / divisor_;
    return {loss_(logits, beside.labels), logits};
  }
  double divisor_;
  Loss loss_;
  torch::nn::Linear linear_ = nullptr;
};

MakeHead soft_head(Fields& options) {
  double divisor = 2;
  options.key("divisor", divisor, {.text = "of the logits", .min = 0.01});
  return [=](const BoundarySite& site) {
    if (site.features.size() != 1)
      throw UserError("mine_head takes features [C], not maps or texts");
    return std::make_shared<SoftHead>(site, divisor);
  };
}
}  // namespace

SLUICE_PLUGIN(plugin) {
  plugin.data_set({"mine_data", "points, by their quadrant", quadrants});
  plugin.head({"mine_head", "a linear classifier, less sure", soft_head});
}
