#include "experiments/data/data_sets.h"

#include <array>

#include "experiments/data/cifar.h"
#include "experiments/data/drawn_digits.h"
#include "experiments/data/idx.h"
#include "experiments/data/text.h"
#include "lib/base/added_rows.h"

namespace sluice {
namespace {

constexpr std::array kRows = {
    DataSetRow{"drawn_digits",
               "digits drawn by the program, 28x28 grey; needs no file",
               configure_drawn_digits},
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
    DataSetRow{"tiny_shakespeare", "text by characters, 1 MB (Karpathy 2015)",
               configure_tiny_shakespeare},
    DataSetRow{"text", "a text file of yours, by bytes", configure_text},
};

}  // namespace

std::span<const DataSetRow> data_sets() {
  return with_added<ConfigureDataSet>(kRows);
}

}  // namespace sluice
