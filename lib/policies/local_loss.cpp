// Greedy local learning: the signal is the gradient of an auxiliary head's
// loss at h_k, and nothing comes from above. Nøkland & Eidnes (ICML 2019,
// arXiv:1901.06656) with the head `predsim`; Belilovsky et al. (ICML 2020,
// arXiv:1901.08164).
#include <utility>

#include "lib/base/plug_in.h"
#include "lib/gradients.h"
#include "lib/policies/attached.h"
#include "lib/policies/plug_ins.h"

namespace sluice {
namespace {

class LocalLoss final : public Policy {
 public:
  LocalLoss(std::shared_ptr<Head> head, std::int64_t layer)
      : head_(std::move(head)), attached_(*head_, "heads", layer) {}

  Traits traits() const override {
    const Needs needs = head_->needs();
    return {.cut = true,
            .from_above = needs.first_layer_above,
            .learns = needs.first_layer_above,
            .needs = needs};
  }

  Signal signal(const Moment& moment) override {
    const HeadResult result =
        head_->forward(moment.features, {.labels = moment.labels,
                                         .raw_input = moment.raw_input,
                                         .pass = moment.pass});
    Tensors targets = moment.features;
    for (const auto& [name, parameter] : attached_.parameters)
      targets.push_back(parameter);
    const Tensors gradients = gradients_at(targets, {result.loss});
    const auto split = gradients.begin() + std::ssize(moment.features);
    Signal signal;
    signal.gradients.assign(gradients.begin(), split);
    signal.parameter_gradients.assign(split, gradients.end());
    signal.loss = result.loss.detach();
    if (result.logits.defined()) signal.logits = result.logits.detach();
    return signal;
  }

  /// What has come from above are weights for the head to follow.
  Lesson learn(const Moment& moment) override {
    head_->follow(moment.from_above);
    return {};
  }

  NamedTensors parameters() const override { return attached_.parameters; }
  NamedTensors buffers() const override { return attached_.buffers; }

 private:
  std::shared_ptr<Head> head_;
  Attached attached_;
};

}  // namespace

MakePolicy configure_local_loss(Fields& options, const PlugIns& plug_ins) {
  MakeHead make_head;
  options.section("head", "the auxiliary head", [&](Fields& fields) {
    std::string name = "linear";
    make_head = choose(fields, "name", plug_ins.heads, name, "auxiliary head")
                    .make(fields);
  });
  return [make_head](const Site& site) {
    return std::make_unique<LocalLoss>(make_head(site), site.layer);
  };
}

}  // namespace sluice
