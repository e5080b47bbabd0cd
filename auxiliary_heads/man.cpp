// Momentum auxiliary network (Su et al., ECCV 2024, arXiv:2407.05623): any
// other head, on LB(h_k) + EMA(h_k), both copies of the first layer of block
// k+1. EMA's weights follow that layer's, without gradient: after each turn's
// backward EMA <- m EMA + (1 - m) w, w being those with which block k+1 went
// through that batch. LB learns what has to be corrected. So block k waits for
// the backward of block k+1, once a turn, before it goes on.
//
// Parameters follow, BatchNorm statistics don't, as in the authors' code. EMA
// begins as the layer does, LB with weights of its own.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "auxiliary_heads/boundary_site.h"
#include "auxiliary_heads/heads.h"
#include "lib/base/error.h"
#include "lib/base/plug_in.h"
#include "lib/base/random.h"
#include "lib/blocks/adapters.h"
#include "lib/blocks/block.h"

namespace sluice {
namespace {

/// Where the inner head stands: as if behind the next layer.
BoundarySite behind(const BoundarySite& site, const LayerSpec& layer) {
  BoundarySite inner = site;
  inner.features = layer.output;
  return inner;
}

class ManHead final : public Head {
 public:
  ManHead(const BoundarySite& site, double momentum, const MakeHead& make_head)
      : layer_(site.layer), momentum_(momentum) {
    const std::int64_t next = site.layer + 1;
    const LayerSpec& layer =
        site.model->layers.at(static_cast<std::size_t>(next));
    correction_ = register_module(
        "correction", trained_layer(layer, head_key(site, "man correction")));
    average_ = make_layers(*site.model, next, next, site.seed).front();
    for (auto& item : average_->named_parameters()) {
      item.value().requires_grad_(false);
      // Saved, but not trained: average_ is no module of the head's.
      averaged_.push_back(register_buffer(own_name(item.key()), item.value()));
      names_.push_back(fmt::format("layers.{}.{}", next, item.key()));
    }
    for (auto& item : average_->named_buffers())
      register_buffer(own_name(item.key()), item.value());
    head_ = register_module("head", make_head(behind(site, layer)));
  }

  Needs needs() const override {
    Needs needs = head_->needs();
    needs.first_layer_above = true;
    return needs;
  }

  HeadResult forward(const Tensors& features,
                     const HeadInputs& beside) override {
    Tensors sums = correction_->forward(features, own_pass(beside.pass, 0));
    const Tensors averages =
        average_->forward(features, own_pass(beside.pass, 1));
    for (std::size_t i = 0; i < sums.size(); ++i)
      sums[i] = sums[i] + averages[i];
    return head_->forward(sums, beside);
  }

  NamedTensors copied() const override {
    NamedTensors all;
    for (std::size_t i = 0; i < averaged_.size(); ++i)
      all.emplace_back(names_[i], averaged_[i]);
    return all;
  }

  void follow(const Tensors& first_layer_above, double share) override {
    SLUICE_CHECK(first_layer_above.size() == averaged_.size(),
                 "[man] got {} weights to follow, has {}",
                 first_layer_above.size(), averaged_.size());
    const at::NoGradGuard no_grad;
    // The batches of a turn together count as one.
    const double momentum = std::pow(momentum_, share);
    for (std::size_t i = 0; i < averaged_.size(); ++i)
      averaged_[i].mul_(momentum).add_(first_layer_above[i], 1 - momentum);
  }

 private:
  /// Name of what average_ holds among the head's buffers.
  static std::string own_name(std::string name) {
    std::replace(name.begin(), name.end(), '.', '_');
    return "average_" + name;
  }

  /// A pass of one of the copies, with dropout masks of its own.
  Pass own_pass(Pass pass, std::uint64_t number) const {
    pass.layer = layer_;
    pass.seed = random_key({pass.seed, key_part("man"), number});
    return pass;
  }

  std::int64_t layer_;
  double momentum_;
  std::shared_ptr<Layer> correction_;
  std::shared_ptr<Layer> average_;
  Tensors averaged_;
  std::vector<std::string> names_;  // of what they follow, in the model
  std::shared_ptr<Head> head_;
};

}  // namespace

MakeHead man_head(Fields& fields) {
  double momentum = 0.995;
  fields.key("momentum", momentum,
             {.text = "share of the average that stays at each turn: 0 copies "
                      "the layer above anew, 1 never moves",
              .min = 0,
              .max = 1});
  MakeHead make_head;
  fields.section("head", "the head behind both copies", [&](Fields& inner) {
    std::string name = "linear";
    make_head =
        choose(inner, "name", heads(), name, "auxiliary head").make(inner);
    if (name == "man") inner.reject("name", "man can't hold another man");
  });
  return [momentum, make_head](const BoundarySite& site) {
    SLUICE_CHECK(site.model != nullptr, "the site above block {} has no model",
                 site.block);
    return std::make_shared<ManHead>(site, momentum, make_head);
  };
}

}  // namespace sluice
