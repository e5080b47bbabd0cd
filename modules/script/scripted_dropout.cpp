#include "modules/script/scripted_dropout.h"

#include <ATen/ops/ones_like.h>
#include <fmt/format.h>
#include <torch/library.h>

#include "lib/base/error.h"
#include "modules/chain.h"
#include "modules/dropout.h"

namespace sluice {
namespace {

/// An operation of a graph can't be handed a pass.
thread_local ScriptedDropouts* dropouts_of_thread = nullptr;

at::Tensor dropped(const at::Tensor& input, double p, bool training,
                   DropoutUnit unit) {
  if (!training || p == 0) return input;
  SLUICE_CHECK(dropouts_of_thread != nullptr,
               "a scripted dropout outside of a layer's forward");
  return Dropout(p, unit).forward({input}, dropouts_of_thread->next()).front();
}

at::Tensor scripted_dropout(const at::Tensor& input, double p, bool training) {
  return dropped(input, p, training, DropoutUnit::element);
}

at::Tensor scripted_feature_dropout(const at::Tensor& input, double p,
                                    bool training) {
  return dropped(input, p, training, DropoutUnit::channel);
}

/// A dropout in place: its mask is found on ones.
at::Tensor& drop_in_place(at::Tensor& input, double p, bool training,
                          DropoutUnit unit) {
  if (!training || p == 0) return input;
  return input.mul_(dropped(at::ones_like(input), p, /*training=*/true, unit));
}

at::Tensor& scripted_dropout_in_place(at::Tensor& input, double p,
                                      bool training) {
  return drop_in_place(input, p, training, DropoutUnit::element);
}

at::Tensor& scripted_feature_dropout_in_place(at::Tensor& input, double p,
                                              bool training) {
  return drop_in_place(input, p, training, DropoutUnit::channel);
}

}  // namespace

ScriptedDropouts::ScriptedDropouts(const Pass& pass)
    : pass_(pass), before_(dropouts_of_thread) {
  dropouts_of_thread = this;
}

ScriptedDropouts::~ScriptedDropouts() {
  dropouts_of_thread = before_;
}

Pass ScriptedDropouts::next() {
  const int index = drawn_++;
  return member_pass(pass_,
                     index == 0 ? "dropout" : fmt::format("dropout.{}", index));
}

}  // namespace sluice

// Made of differentiable operations, so autograd needs no rule of its own.
TORCH_LIBRARY(sluice, library) {
  library.def("dropout(Tensor input, float p, bool train) -> Tensor",
              &sluice::scripted_dropout);
  library.def("feature_dropout(Tensor input, float p, bool train) -> Tensor",
              &sluice::scripted_feature_dropout);
  library.def("dropout_(Tensor(a!) input, float p, bool train) -> Tensor(a!)",
              &sluice::scripted_dropout_in_place);
  library.def(
      "feature_dropout_(Tensor(a!) input, float p, bool train) -> Tensor(a!)",
      &sluice::scripted_feature_dropout_in_place);
}
