// "1c2f", the classifier of InfoPro (Wang et al., ICLR 2021, arXiv:2101.10832),
// as a head of its own: DGL in the tables of that paper and of AugLocal's.
#include <memory>

#include "auxiliary_heads/boundary_site.h"
#include "auxiliary_heads/net_1c2f.h"

namespace sluice {
namespace {

class Head1c2f final : public Head {
 public:
  explicit Head1c2f(const BoundarySite& site)
      : loss_(site.loss),
        classifier_(std::make_shared<Net1c2f>(site, site.classes)) {
    register_module("classifier", classifier_);
  }

  HeadResult forward(const Tensors& features,
                     const HeadInputs& beside) override {
    const at::Tensor logits =
        classifier_->forward(features.front(), "1c2f");  // [N, classes]
    return {loss_(logits, beside.labels), logits};
  }

 private:
  Loss loss_;
  std::shared_ptr<Net1c2f> classifier_;
};

}  // namespace

MakeHead head_1c2f(Fields& /*options*/) {
  return [](const BoundarySite& site) {
    check_maps(site, "1c2f");
    return std::make_shared<Head1c2f>(site);
  };
}

}  // namespace sluice
