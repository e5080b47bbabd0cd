#include "auxiliary_heads/heads.h"

#include <array>

namespace sluice {

// Each in the file of its name.
MakeHead linear_head(Fields& options);
MakeHead predsim_head(Fields& options);

std::span<const HeadRow> heads() {
  static constexpr std::array kRows = {
      HeadRow{"linear", "pooled features, linear classifier", linear_head},
      HeadRow{"predsim",
              "linear classifier and similarity matching (Nokland & Eidnes "
              "2019, arXiv:1901.06656)",
              predsim_head},
  };
  return kRows;
}

}  // namespace sluice
