// A new method adds one name here and one row below.
#include "lib/policy.h"

namespace sluice {

MakePolicy configure_backprop(Fields& options, std::span<const HeadRow> heads);
MakePolicy configure_local_loss(Fields& options,
                                std::span<const HeadRow> heads);
MakePolicy configure_blend(Fields& options, std::span<const HeadRow> heads);

std::span<const PolicyRow> policies() {
  static constexpr PolicyRow kRows[] = {
      {"backprop", "the gradient from above, undelayed", configure_backprop},
      {"blend", "a weighted sum of other policies' signals", configure_blend},
      {"local_loss", "the loss of an auxiliary head (greedy, arXiv:1901.08164)",
       configure_local_loss},
  };
  return kRows;
}

}  // namespace sluice
