// Published ways to send the gradients of replicas in fewer bytes.
#include "experiments/config/presets/presets.h"

namespace sluice {

std::span<const PresetRow> compressed_presets() {
  static constexpr PresetRow kRows[] = {
      {"one_bit_sgd",
       "a bit for each element of a gradient, both ways",
       {.source = "Seide et al., \"1-Bit Stochastic Gradient Descent and its "
                  "Application to Data-Parallel Distributed Training of Speech "
                  "DNNs\", Interspeech 2014",
        .kept = "what it has not sent of its gradients, and of its stripe what "
                "the sum has lost",
        .staleness =
            "no gradient is late; what is left out of one comes with the next "
            "ones",
        .config = "[replicas]\n"
                  "count = 4\n"
                  "policy = \"all_reduce\"\n"
                  "compress = \"one_bit\"\n"}},
      {"top_k_sgd",
       "the largest magnitudes of a gradient, and a memory of the others",
       {.source = "Stich, Cordonnier, Jaggi, \"Sparsified SGD with Memory\", "
                  "NeurIPS 2018, arXiv:1809.07599",
        .kept = "what it has not sent of its gradients",
        .staleness =
            "no gradient is late; what is left out of one comes with the next "
            "ones",
        .config = "[replicas]\n"
                  "count = 4\n"
                  "policy = \"all_reduce\"\n"
                  "compress = \"top_k\"\n"
                  "ratio = 0.01\n"}},
      {"dgc",
       "the largest magnitudes of a momentum, with masks and a warm-up",
       {.source = "Lin et al., \"Deep Gradient Compression\", ICLR 2018, "
                  "arXiv:1712.01887. The optimizer then has no momentum, nor "
                  "has its weight decay, for which the authors' code keeps one",
        .kept = "its momentum, and what of that it has not sent",
        .staleness =
            "no gradient is late; what is left out of one comes with the next "
            "ones",
        .config = "[replicas]\n"
                  "count = 4\n"
                  "policy = \"all_reduce\"\n"
                  "compress = \"dgc\"\n"
                  "ratio = 0.001\n"
                  "momentum = 0.9\n"
                  "warmup_epochs = 4.0\n"
                  "\n"
                  "[optimizer]\n"
                  "name = \"sgd\"\n"
                  "momentum = 0.0\n"}},
      {"threshold_sgd",
       "signs of the elements that have come to a threshold",
       {.source =
            "Strom, \"Scalable Distributed DNN Training Using Commodity GPU "
            "Cloud Computing\", Interspeech 2015",
        .kept = "what it has not sent of its gradients",
        .staleness =
            "no gradient is late; what is left out of one comes with the next "
            "ones",
        .config = "[replicas]\n"
                  "count = 4\n"
                  "policy = \"all_reduce\"\n"
                  "compress = \"threshold\"\n"
                  "threshold = 0.001\n"}},
      {"qsgd",
       "a few levels of a gradient's norm, drawn without bias",
       {.source =
            "Alistarh et al., \"QSGD: Communication-Efficient SGD via "
            "Gradient Quantization and Encoding\", NeurIPS 2017, "
            "arXiv:1610.02132, with levels of equal numbers of bits in place "
            "of Elias codes",
        .kept = "the weights that all have",
        .staleness =
            "none: what is applied has the mean gradient for its expectation",
        .config = "[replicas]\n"
                  "count = 4\n"
                  "policy = \"all_reduce\"\n"
                  "compress = \"qsgd\"\n"
                  "levels = 7\n"
                  "bucket = 512\n"}},
      {"signsgd",
       "the sign that most replicas have",
       {.source = "Bernstein et al., \"signSGD: Compressed Optimisation for "
                  "Non-Convex Problems\", ICML 2018, arXiv:1802.04434, with "
                  "majority vote",
        .kept = "the weights that all have",
        .staleness = "none; a step has no magnitude but the rate",
        .config = "[replicas]\n"
                  "count = 4\n"
                  "policy = \"all_reduce\"\n"
                  "compress = \"sign\"\n"}},
      {"signum",
       "signSGD of a momentum that each replica has",
       {.source =
            "Bernstein et al., ICML 2018, arXiv:1802.04434, algorithm 2, with "
            "majority vote. The optimizer then has no momentum",
        .kept = "the mean of its gradients",
        .staleness = "none; a step has no magnitude but the rate",
        .config = "[replicas]\n"
                  "count = 4\n"
                  "policy = \"all_reduce\"\n"
                  "compress = \"sign\"\n"
                  "momentum = 0.9\n"
                  "\n"
                  "[optimizer]\n"
                  "name = \"sgd\"\n"
                  "momentum = 0.0\n"}},
      {"ef_signsgd",
       "scaled signs, and a memory of what they lose",
       {.source =
            "Karimireddy et al., \"Error Feedback Fixes SignSGD and other "
            "Gradient Compression Schemes\", ICML 2019, arXiv:1901.09847",
        .kept = "what it has not sent of its gradients",
        .staleness =
            "no gradient is late; what is left out of one comes with the next "
            "ones",
        .config = "[replicas]\n"
                  "count = 4\n"
                  "policy = \"all_reduce\"\n"
                  "compress = \"sign\"\n"
                  "error_feedback = true\n"}},
      {"power_sgd",
       "gradients as products of two thin matrices, in two rounds",
       {.source =
            "Vogels, Karimireddy, Jaggi, \"PowerSGD: Practical Low-Rank "
            "Gradient Compression for Distributed Optimization\", NeurIPS "
            "2019, arXiv:1905.13727, algorithm 1",
        .kept = "what it has not sent of its gradients, and the thin matrices "
                "that it begins with",
        .staleness =
            "no gradient is late; what is left out of one comes with the next "
            "ones",
        .config = "[replicas]\n"
                  "count = 4\n"
                  "policy = \"all_reduce\"\n"
                  "compress = \"power_sgd\"\n"
                  "rank = 2\n"}},
  };
  return kRows;
}

}  // namespace sluice
