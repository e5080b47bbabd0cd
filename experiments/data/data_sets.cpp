#include "experiments/data/data_sets.h"

#include <array>

#include "experiments/data/drawn/clusters.h"
#include "experiments/data/drawn/drawn_digits.h"
#include "experiments/data/drawn/noise.h"
#include "experiments/data/sets/cifar.h"
#include "experiments/data/sets/idx.h"
#include "experiments/data/sets/image_folder.h"
#include "experiments/data/sets/image_shards.h"
#include "experiments/data/sets/imagenet32.h"
#include "experiments/data/sets/packed_tensors.h"
#include "experiments/data/sets/text.h"
#include "experiments/data/sets/tokens.h"
#include "lib/base/added_rows.h"

namespace sluice {
namespace {

constexpr std::array kRows = {
    DataSetRow{"drawn_digits",
               "digits drawn by the program, 28x28 grey; needs no file",
               configure_drawn_digits},
    DataSetRow{"noise",
               "random images, vectors or tokens of any shape; needs no file",
               configure_noise},
    DataSetRow{"clusters",
               "a mixture of Gaussians, several to a class; needs no file",
               configure_clusters},
    DataSetRow{"mnist", "handwritten digits, 28x28 grey (LeCun 1998)",
               configure_mnist},
    DataSetRow{"fashion_mnist", "clothes, 28x28 grey (Xiao 2017)",
               configure_fashion_mnist},
    DataSetRow{"kmnist", "cursive Japanese, 28x28 grey (Clanuwat 2018)",
               configure_kmnist},
    DataSetRow{"cifar10", "photographs, 32x32 colour (Krizhevsky 2009)",
               configure_cifar10},
    DataSetRow{"cifar100", "photographs, 32x32 colour, 100 or 20 classes",
               configure_cifar100},
    DataSetRow{"imagenet32", "ImageNet at 32x32 colour (Chrabaszcz 2017), .npz",
               configure_imagenet32},
    DataSetRow{"tiny_imagenet", "photographs, 64x64 colour, 200 classes",
               configure_tiny_imagenet},
    DataSetRow{
        "image_folder",
        "PNG and JPEG files of yours: train/CLASS/*, test or val/CLASS/*",
        configure_image_folder},
    DataSetRow{"image_shards",
               "PNG and JPEG files of yours in tar files (WebDataset's)",
               configure_image_shards},
    DataSetRow{"tensors",
               "tensors of yours, .safetensors or .npy: classes, or numbers to "
               "be predicted",
               configure_packed_tensors},
    DataSetRow{"tokens", "token files of yours, uint16 or uint32 (nanoGPT's)",
               configure_tokens},
    DataSetRow{"tiny_shakespeare",
               "text by bytes or sub-words, 1 MB (Karpathy 2015)",
               configure_tiny_shakespeare},
    DataSetRow{"text", "a text file of yours, by bytes or sub-words",
               configure_text},
};

}  // namespace

std::span<const DataSetRow> data_sets() {
  return with_added<ConfigureDataSet>(kRows);
}

}  // namespace sluice
