#include "modules/models.h"

#include <array>

#include "lib/base/added_rows.h"

namespace sluice {

// Builders of models, each in the file of its name; resnet20 to 110 in
// resnet.cpp, resnet18 to 50 in deep_resnet.cpp.
MakeModel mlp(Fields& options);
MakeModel conv3(Fields& options);
MakeModel small_conv(Fields& options);
MakeModel vgg8b(Fields& options);
MakeModel vgg11b(Fields& options);
MakeModel resnet(Fields& options);
MakeModel resnet20(Fields& options);
MakeModel resnet32(Fields& options);
MakeModel resnet56(Fields& options);
MakeModel resnet110(Fields& options);
MakeModel resnet18(Fields& options);
MakeModel resnet34(Fields& options);
MakeModel resnet50(Fields& options);
MakeModel revnet(Fields& options);
MakeModel vit(Fields& options);
MakeModel mlp_mixer(Fields& options);
MakeModel gpt(Fields& options);
MakeModel llama(Fields& options);
MakeModel lstm(Fields& options);
MakeModel ff_mlp(Fields& options);
MakeModel listed_layers(Fields& options);
MakeModel torchscript(Fields& options);

std::span<const ModelRow> models() {
  static constexpr std::array kRows = {
      ModelRow{"mlp", "fully connected layers", mlp},
      ModelRow{"ff_mlp",
               "fully connected layers of the Forward-Forward algorithm "
               "(Hinton 2022, arXiv:2212.13345)",
               ff_mlp},
      ModelRow{"conv3",
               "three 5x5 convolutions and a linear layer: the CIFAR-10 net of "
               "the DNI and DGL papers (arXiv:1608.05343, 1901.08164)",
               conv3},
      ModelRow{"small_conv",
               "two 3x3 convolutions and two linear layers, for small images",
               small_conv},
      ModelRow{"vgg8b",
               "six convolutions and two linear layers (Nokland & Eidnes 2019, "
               "arXiv:1901.06656)",
               vgg8b},
      ModelRow{"vgg11b",
               "nine convolutions and two linear layers, of the same paper",
               vgg11b},
      ModelRow{"resnet",
               "residual network for small images, of any depth 6n + 2 (He et "
               "al. 2015, arXiv:1512.03385, shortcuts without parameters)",
               resnet},
      ModelRow{"resnet20", "resnet of depth 20", resnet20},
      ModelRow{"resnet32", "resnet of depth 32", resnet32},
      ModelRow{"resnet56", "resnet of depth 56", resnet56},
      ModelRow{"resnet110", "resnet of depth 110", resnet110},
      ModelRow{"resnet18",
               "residual network of 18 layers, for images of 32, 64 or 224 "
               "pixels (He et al. 2016, arXiv:1512.03385)",
               resnet18},
      ModelRow{"resnet34", "the same of 34 layers", resnet34},
      ModelRow{"resnet50", "the same of 50 layers, with bottlenecks", resnet50},
      ModelRow{"revnet",
               "residual network whose blocks can be inverted (Gomez et al. "
               "2017, arXiv:1707.04585), as PETRA has it",
               revnet},
      ModelRow{"vit",
               "Vision Transformer on patches of an image (Dosovitskiy et al. "
               "2021, arXiv:2010.11929)",
               vit},
      ModelRow{
          "mlp_mixer",
          "MLPs that mix places and channels of patches (Tolstikhin et al. "
          "2021, arXiv:2105.01601)",
          mlp_mixer},
      ModelRow{"gpt",
               "Transformer language model in the style of GPT-2, for texts",
               gpt},
      ModelRow{"llama",
               "Transformer language model in the style of LLaMA: rotary "
               "positions, SwiGLU, shared heads of keys; for texts",
               llama},
      ModelRow{"lstm", "recurrent language model, for texts", lstm},
      ModelRow{"layers",
               "layers listed in the config, a table [[model.layer]] each",
               listed_layers},
      ModelRow{"torchscript",
               "a network of PyTorch's: a file of torch.jit.script, cut at "
               "modules of it",
               torchscript},
  };
  return with_added<ConfigureModel>(kRows);
}

Model make_model(std::string_view name, const SampleSpec& sample,
                 const ConfigNode& options) {
  Fields fields(&options, "model");
  const MakeModel make = find_row(models(), name, "model").make(fields);
  fields.finish();
  return make(sample);
}

}  // namespace sluice
