#pragma once

#include <memory>
#include <vector>

#include "lib/tensors/tensors.h"

namespace sluice {

/// A backward in two halves (zero bubble pipelines: Qi et al. 2024,
/// arXiv:2401.10241, section 2): the gradients at the inputs first, those of
/// the parameters later. The second half starts at the operations where the
/// gradients of parameters branch off, from what arrived there in the first
/// half, and does none of that half's work again. Used by one thread.
class SplitBackward {
 public:
  /// The graph of `outputs`, which must outlive both halves. Gradients are
  /// taken at `inputs` and `parameters`, which are leaves.
  SplitBackward(Tensors outputs, Tensors inputs, Tensors parameters);
  ~SplitBackward();
  SplitBackward(SplitBackward&&) noexcept;
  SplitBackward& operator=(SplitBackward&&) noexcept;

  /// `signal`: the gradients at the outputs. Undefined where an input is
  /// unused.
  Tensors at_inputs(const Tensors& signal);
  /// Gradients at the parameters, once, after at_inputs(). `keep_graph`:
  /// another backward follows. Undefined where a parameter is unused.
  Tensors at_parameters(bool keep_graph);

 private:
  struct Branches;

  Tensors outputs_;
  Tensors inputs_;
  Tensors parameters_;
  Tensors signal_;
  /// None: a parameter is used by several operations, whose gradients the
  /// second half could not tell apart, so that it takes the whole way.
  std::unique_ptr<Branches> branches_;
};

}  // namespace sluice
