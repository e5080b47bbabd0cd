#include "modules/models.h"

#include <array>

namespace sluice {

// Each in the file of its name.
MakeModel mlp(Fields& options);
MakeModel conv3(Fields& options);
MakeModel small_conv(Fields& options);

std::span<const ModelRow> models() {
  static constexpr std::array kRows = {
      ModelRow{"mlp", "fully connected layers", mlp},
      ModelRow{"conv3",
               "three 5x5 convolutions and a linear layer: the CIFAR-10 net of "
               "the DNI and DGL papers (arXiv:1608.05343, 1901.08164)",
               conv3},
      ModelRow{"small_conv",
               "two 3x3 convolutions and two linear layers, for small images",
               small_conv},
  };
  return kRows;
}

}  // namespace sluice
