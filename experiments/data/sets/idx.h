#pragma once

#include "experiments/data/samples/data_set.h"

namespace sluice {

/// 28x28 grey images in 10 classes from root/mnist, root/fashion-mnist and
/// root/kmnist, in the files train- and t10k-{images-idx3,labels-idx1}-ubyte,
/// each as published or without .gz.
MakeDataSet configure_mnist(Fields& options);
MakeDataSet configure_fashion_mnist(Fields& options);
MakeDataSet configure_kmnist(Fields& options);

}  // namespace sluice
