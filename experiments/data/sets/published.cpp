#include "experiments/data/sets/published.h"

namespace sluice {

// Sizes and sums are those that TensorFlow Datasets publishes in
// tensorflow_datasets/url_checksums.
std::span<const PublishedSet> published_sets() {
  static const std::vector<PublishedSet> sets = {
      {.name = "mnist",
       .url = "https://storage.googleapis.com/cvdf-datasets/mnist",
       .folder = "mnist",
       .files = {{"train-images-idx3-ubyte.gz", 9912422,
                  "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f2035"
                  "23609"},
                 {"train-labels-idx1-ubyte.gz", 28881,
                  "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e801"
                  "0255c"},
                 {"t10k-images-idx3-ubyte.gz", 1648877,
                  "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2d"
                  "bc4e6"},
                 {"t10k-labels-idx1-ubyte.gz", 4542,
                  "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb25992420"
                  "4aec6"}}},
      {.name = "fashion_mnist",
       .url = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
       .folder = "fashion-mnist",
       .files = {{"train-images-idx3-ubyte.gz", 26421880,
                  "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369"
                  "268a84"},
                 {"train-labels-idx1-ubyte.gz", 29515,
                  "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54c"
                  "c90845"},
                 {"t10k-images-idx3-ubyte.gz", 4422102,
                  "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03d"
                  "b6a073"},
                 {"t10k-labels-idx1-ubyte.gz", 5148,
                  "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086"
                  "bf8dd5"}}},
      {.name = "kmnist",
       .url = "http://codh.rois.ac.jp/kmnist/dataset/kmnist",
       .folder = "kmnist",
       .files = {{"train-images-idx3-ubyte.gz", 18165135,
                  "51467d22d8cc72929e2a028a0428f2086b092bb31cfb79c69cc0a90ce1"
                  "35fde4"},
                 {"train-labels-idx1-ubyte.gz", 29497,
                  "e38f9ebcd0f3ebcdec7fc8eabdcdaef93bb0df8ea12bee65224341c818"
                  "3d8e17"},
                 {"t10k-images-idx3-ubyte.gz", 3041136,
                  "edd7a857845ad6bb1d0ba43fe7e794d164fe2dce499a1694695a792adf"
                  "ac43c5"},
                 {"t10k-labels-idx1-ubyte.gz", 5120,
                  "20bb9a0ef54c7db3efc55a92eef5582c109615df22683c380526788f98"
                  "e42a1c"}}},
      {.name = "cifar10",
       .url = "https://www.cs.toronto.edu/~kriz",
       .folder = "cifar-10-batches-bin",
       .files = {{"cifar-10-binary.tar.gz", 170052171,
                  "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59"
                  "bca1dd"}},
       .unpacked = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                    "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"}},
      {.name = "cifar100",
       .url = "https://www.cs.toronto.edu/~kriz",
       .folder = "cifar-100-binary",
       .files = {{"cifar-100-binary.tar.gz", 168513733,
                  "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a"
                  "40d8ec"}},
       .unpacked = {"train.bin", "test.bin"}},
      {.name = "tiny_shakespeare",
       .url = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/"
              "tinyshakespeare",
       .folder = "tinyshakespeare",
       .files = {{"input.txt", 1115394,
                  "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2d"
                  "c565ed"}}},
  };
  return sets;
}

}  // namespace sluice
