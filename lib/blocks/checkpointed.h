#pragma once

#include <c10/core/Device.h>

#include "lib/blocks/layer.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// Runs the layers, of which the first is `pass.layer`, and keeps of their
/// graph the inputs alone: each backward through it runs them again, with the
/// same bits (Chen et al. 2016, arXiv:1604.06174). Their weights must be the
/// same then; buffers, such as BatchNorm's statistics, stay as the forward
/// leaves them, and must not decide what a forward computes. Gradients are of
/// first order: one that shall have a graph of its own throws UserError. Each
/// half of a split backward (SplitBackward) runs the layers.
Tensors run_checkpointed(const Layers& layers, const Pass& pass,
                         const Tensors& inputs, const c10::Device& device);

}  // namespace sluice
