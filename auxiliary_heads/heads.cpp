#include "auxiliary_heads/heads.h"

#include <array>

#include "lib/base/added_rows.h"

namespace sluice {

// Builders of heads, each in the file of its name.
MakeHead linear_head(Fields& options);
MakeHead predsim_head(Fields& options);
MakeHead mlp_sr_head(Fields& options);
MakeHead conv_head(Fields& options);
MakeHead full_conv_head(Fields& options);
MakeHead vocabulary_head(Fields& options);
MakeHead aug_local_head(Fields& options);
MakeHead head_1c2f(Fields& options);
MakeHead infopro_head(Fields& options);
MakeHead forward_forward_head(Fields& options);
MakeHead man_head(Fields& options);
MakeHead mono_forward_head(Fields& options);
MakeHead ridge_head(Fields& options);

std::span<const HeadRow> heads() {
  static constexpr std::array kRows = {
      HeadRow{"linear", "pooled features, linear classifier", linear_head},
      HeadRow{"predsim",
              "linear classifier and similarity matching (Nokland & Eidnes "
              "2019, arXiv:1901.06656)",
              predsim_head},
      HeadRow{"mlp_sr",
              "pooled maps, 1x1 convolutions, linear layers (Belilovsky et al. "
              "2020, arXiv:1901.08164)",
              mlp_sr_head},
      HeadRow{"conv", "3x3 convolutions, linear classifier (of the same paper)",
              conv_head},
      HeadRow{"full_conv",
              "three 5x5 convolutions, as large as a synthesizer of synthetic "
              "gradients; begins with no gradient",
              full_conv_head},
      HeadRow{"aug_local",
              "copies of layers above with weights of their own, linear "
              "classifier (Ma et al. 2024, arXiv:2402.17318)",
              aug_local_head},
      HeadRow{"1c2f",
              "3x3 convolution, two linear layers: the classifier of InfoPro",
              head_1c2f},
      HeadRow{"infopro",
              "reconstruction of the input, and supervised contrast or a "
              "classifier (Wang et al. 2021, arXiv:2101.10832)",
              infopro_head},
      HeadRow{"forward_forward",
              "goodness of right against wrong labels, for ff_mlp (Hinton "
              "2022, arXiv:2212.13345)",
              forward_forward_head},
      HeadRow{"man",
              "another head behind a copy of the next layer and its momentum "
              "average (Su et al. 2024, arXiv:2407.05623)",
              man_head},
      HeadRow{"mono_forward",
              "a goodness for each class by a matrix, without a bias "
              "(Mono-Forward: Gong, Li, Abdulla 2025, arXiv:2501.09238)",
              mono_forward_head},
      HeadRow{"ridge",
              "a linear layer that is solved by ridge regression, not stepped "
              "(deep stacking: Deng et al. 2012)",
              ridge_head},
      HeadRow{"vocabulary", "norm and linear layer at every place of a text",
              vocabulary_head},
  };
  return with_added<ConfigureHead>(kRows);
}

}  // namespace sluice
