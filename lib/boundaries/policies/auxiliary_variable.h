#pragma once

#include <cstdint>

#include "lib/boundaries/boundary.h"

namespace sluice {

// A boundary that block k's output need not equal what block k+1 takes: that is
// a variable z_k of its own, and the network is trained on
//
//   mean over samples of  loss(f_K(z_{K-1}))
//     + sum over k of  <lambda_k, z_k - f_k(z_{k-1})>
//                      + beta/2 |z_k - f_k(z_{k-1})|^2,     z_0 = x,
//
// with lambda = 0 for a penalty alone. The residual r = z - f is what is
// computed with, so that nothing cancels: z moves by
// -epsilon (beta r + lambda + g), where g is what a sample's share of the
// gradient from above is times the number of samples; block k's weights move by
// the gradient -(beta r + lambda) at its output; lambda grows by beta r. With
// lambda = r = 0, one step from the top and beta epsilon = 1 that is
// back-propagation. Penalty and augmented Lagrangian: Sun et al. 2020,
// arXiv:2009.01462; scaled: Khorram et al. 2021, arXiv:2105.00339.

/// How z moves along its gradient.
enum class VariablesStep : std::uint8_t {
  gradient,  ///< by epsilon times it
  adam       ///< by Adam, whose moments are kept where z is
};

enum class VariablesOrder : std::uint8_t {
  top_down,      ///< z_k after z_{k+1}, then the weights
  at_once,       ///< all z_k, then the weights
  weights_first  ///< the weights, then z_k when the gradient has come
};

enum class VariablesOf : std::uint8_t {
  batch,   ///< they begin at h_k, and are forgotten with the batch
  sample,  ///< kept until the sample comes again
  echo     ///< kept until the last pass over an echo
};

/// The part of the multiplier lambda that is kept.
enum class DualOf : std::uint8_t {
  none,        ///< there is none
  multiplier,  ///< lambda, which grows with each step of z
  /// u = lambda / beta, which grows by r: of a sample's variable after the
  /// weights' turn; of a batch's, which is forgotten then, after each sweep.
  scaled
};

struct VariableOptions {
  double beta = 1;
  double step_size = 1;  ///< epsilon, or Adam's rate
  VariablesStep step = VariablesStep::gradient;
  std::int64_t steps = 1;  ///< 0, only with weights_first: z stays
  VariablesOrder order = VariablesOrder::top_down;
  VariablesOf memory = VariablesOf::batch;
  DualOf dual = DualOf::none;

  bool has_dual() const { return dual != DualOf::none; }
  bool has_moments() const { return step == VariablesStep::adam; }
};

/// Reads the options of such a policy over these defaults, and makes its ends;
/// `dual` is no option.
MakeBoundary auxiliary_variable(Fields& options, VariableOptions defaults);

}  // namespace sluice
