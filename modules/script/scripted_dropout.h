#pragma once

#include <string>

#include <ATen/core/Tensor.h>

#include "lib/blocks/layer.h"

namespace sluice {

/// While it lives, dropouts of scripted graphs that this thread runs draw their
/// masks for that pass, as modules/dropout.h draws them: the first under the
/// name "dropout", those after it under "dropout.1", "dropout.2", ... Such a
/// graph has, in the place of ATen's dropouts, which draw from LibTorch's
/// process-wide generator, the operations "sluice::dropout" (of elements),
/// "sluice::feature_dropout" (of channels), and both in place with a "_" at the
/// end; they take what ATen's take.
class ScriptedDropouts {
 public:
  explicit ScriptedDropouts(const Pass& pass);
  ~ScriptedDropouts();
  ScriptedDropouts(const ScriptedDropouts&) = delete;
  ScriptedDropouts& operator=(const ScriptedDropouts&) = delete;

  /// The pass of the next dropout.
  Pass next();

 private:
  const Pass& pass_;
  int drawn_ = 0;
  ScriptedDropouts* before_;
};

}  // namespace sluice
