// Published ways to train replicas that sum over all of them.
#include "experiments/config/presets/presets.h"

namespace sluice {

std::span<const PresetRow> averaging_presets() {
  static constexpr PresetRow kRows[] = {
      {"synchronous_sgd",
       "one update of the mean of all replicas' gradients",
       {.source =
            "Chen et al., \"Revisiting Distributed Synchronous SGD\", 2016, "
            "arXiv:1604.00981, without backup workers",
        .kept = "the weights that all have",
        .staleness =
            "none: R replicas have the bits of one that sums up R batches for "
            "an update",
        .config = "[replicas]\n"
                  "count = 4\n"
                  "policy = \"all_reduce\"\n"}},
      {"backup_workers",
       "one update of the mean of the first gradients; later ones are dropped",
       {.source =
            "Chen et al., \"Revisiting Distributed Synchronous SGD\", 2016, "
            "arXiv:1604.00981: of count replicas, count - backup are waited "
            "for",
        .kept = "the weights that all have; a centre the optimizer's state",
        .staleness =
            "none: a gradient of an earlier update is dropped, and its replica "
            "goes on with the turn that is due",
        .config = "schedule = \"free\"\n"
                  "blocks = 1\n"
                  "\n"
                  "[replicas]\n"
                  "count = 4\n"
                  "policy = \"all_reduce\"\n"
                  "backup = 1\n"}},
      {"zero_1",
       "synchronous SGD in which each replica keeps a part of the optimizer's "
       "state",
       {.source =
            "Rajbhandari et al., \"ZeRO: Memory Optimizations Toward Training "
            "Trillion Parameter Models\", SC 2020, arXiv:1910.02054, stage 1",
        .kept =
            "the weights that all have; of the optimizer's state a part of 1 "
            "/ R",
        .staleness = "none: it has the bits of synchronous SGD",
        .config = "[replicas]\n"
                  "count = 4\n"
                  "policy = \"all_reduce\"\n"
                  "shard = true\n"}},
      {"local_sgd",
       "replicas that train alone and average their weights now and then",
       {.source =
            "Stich, \"Local SGD Converges Fast and Communicates Little\", "
            "ICLR 2019, arXiv:1805.09767; model averaging: Su and Chen 2015, "
            "arXiv:1507.01239. every is its H",
        .kept = "weights of its own",
        .staleness =
            "no gradient is late; weights drift apart for so many updates as "
            "every says. every = 1 is synchronous SGD for SGD without momentum",
        .config = "[replicas]\n"
                  "count = 4\n"
                  "policy = \"average\"\n"
                  "every = 8\n"}},
      {"post_local_sgd",
       "one update of all replicas first, then replicas that train alone and "
       "average their weights",
       {.source =
            "Lin, Stich, Patel and Jaggi, \"Don't Use Large Mini-Batches, Use "
            "Local SGD\", ICLR 2020, arXiv:1808.07217. each_before is the "
            "turn of the first drop of the learning rate, every its H",
        .kept = "weights of its own",
        .staleness =
            "no gradient is late; from turn each_before on weights drift "
            "apart for so many updates as every says",
        .config = "[replicas]\n"
                  "count = 4\n"
                  "policy = \"average\"\n"
                  "every = 8\n"
                  "each_before = 100\n"}},
      {"bmuf",
       "averages of weights, whose movement is filtered by a momentum",
       {.source =
            "Chen and Huo, \"Scalable training of deep learning machines by "
            "incremental block training with intra-block parallel "
            "optimization and blockwise model-update filtering\", ICASSP "
            "2016, doi:10.1109/ICASSP.2016.7472805, equations 3 to 6. "
            "outer_momentum is 1 - 1 / replicas.count",
        .kept =
            "weights of its own, where all met last, and the momentum of that",
        .staleness =
            "no gradient is late; weights drift apart for so many updates as "
            "every says",
        .config = "[replicas]\n"
                  "count = 4\n"
                  "policy = \"average\"\n"
                  "every = 16\n"
                  "outer_momentum = 0.75\n"
                  "outer_nesterov = true\n"}},
      {"slowmo",
       "averages of weights with a slow momentum, in units of gradients",
       {.source = "Wang et al., \"SlowMo: Improving Communication-Efficient "
                  "Distributed SGD with Slow Momentum\", ICLR 2020, "
                  "arXiv:1910.00643, algorithm 1",
        .kept = "weights of its own, where all met last, and the slow momentum",
        .staleness =
            "no gradient is late; weights drift apart for so many updates as "
            "every says",
        .config = "[replicas]\n"
                  "count = 4\n"
                  "policy = \"average\"\n"
                  "every = 12\n"
                  "outer_momentum = 0.5\n"
                  "outer_per_rate = true\n"}},
      {"diloco",
       "AdamW in each replica, an outer Nesterov momentum over their averages",
       {.source =
            "Douillard et al., \"DiLoCo: Distributed Low-Communication "
            "Training of Language Models\", 2023, arXiv:2311.08105, algorithm "
            "1. every is its H, which is 500 there",
        .kept =
            "weights of its own, where all met last, and the outer momentum",
        .staleness =
            "no gradient is late; weights drift apart for so many updates as "
            "every says",
        .config = "[replicas]\n"
                  "count = 4\n"
                  "policy = \"average\"\n"
                  "every = 20\n"
                  "outer_lr = 0.7\n"
                  "outer_momentum = 0.9\n"
                  "outer_nesterov = true\n"
                  "\n"
                  "[optimizer]\n"
                  "name = \"adamw\"\n"}},
      {"decoupled_diloco",
       "DiLoCo whose averages wait for a quorum and a grace, not for all",
       {.source =
            "\"Decoupled DiLoCo\", 2026, arXiv:2604.21428: blocks are its "
            "fragments, their centres its syncer. Weights of learners by what "
            "they have processed aren't there: all make as many updates",
        .kept =
            "weights of its own; a centre those that each has taken, where it "
            "is, and the outer momentum",
        .staleness =
            "what comes after a merge is in the next one, as a movement from "
            "older weights; no single gradient is late",
        .config = "schedule = \"free\"\n"
                  "\n"
                  "[replicas]\n"
                  "count = 4\n"
                  "policy = \"average\"\n"
                  "every = 20\n"
                  "quorum = 3\n"
                  "grace = 0.05\n"
                  "outer_lr = 0.7\n"
                  "outer_momentum = 0.9\n"
                  "outer_nesterov = true\n"
                  "\n"
                  "[optimizer]\n"
                  "name = \"adamw\"\n"}},
      {"streaming_diloco",
       "DiLoCo, of which one block after the other is averaged while updates "
       "go on",
       {.source =
            "Douillard et al., \"Streaming DiLoCo with overlapping "
            "communication\", 2025, arXiv:2501.18512: blocks are its "
            "fragments, overlap its tau, mixing its alpha. Movements go in "
            "4 bits, each a part of the largest of 512",
        .kept =
            "weights of its own, where all met last, and the outer momentum",
        .staleness =
            "no gradient is late; weights of a block drift apart for so many "
            "updates as every says, and blocks meet at different ones; an "
            "average is of weights of so many updates ago as overlap says",
        .config = "[replicas]\n"
                  "count = 4\n"
                  "policy = \"average\"\n"
                  "every = 20\n"
                  "stagger = true\n"
                  "overlap = 5\n"
                  "mixing = 0.5\n"
                  "compress = \"e3m0\"\n"
                  "outer_lr = 0.7\n"
                  "outer_momentum = 0.9\n"
                  "outer_nesterov = true\n"
                  "\n"
                  "[optimizer]\n"
                  "name = \"adamw\"\n"}},
      {"sparseloco",
       "DiLoCo without an outer momentum, whose movements are sent sparse",
       {.source =
            "Sarfi et al., \"Communication Efficient LLM Pre-training with "
            "SparseLoCo\", 2025, arXiv:2508.15706. Its values in 2 bits aren't "
            "there: each is a float",
        .kept = "weights of its own, where all met last, and what it has not "
                "sent of its movements",
        .staleness =
            "no gradient is late; weights drift apart for so many updates as "
            "every says; a part of a movement may be sent many exchanges later",
        .config = "[replicas]\n"
                  "count = 4\n"
                  "policy = \"average\"\n"
                  "every = 20\n"
                  "compress = \"top_k\"\n"
                  "ratio = 0.03125\n"
                  "chunk = 4096\n"
                  "error_decay = 0.95\n"
                  "\n"
                  "[optimizer]\n"
                  "name = \"adamw\"\n"}},
      {"easgd",
       "replicas and a centre that pull at each other, all at once",
       {.source =
            "Zhang, Choromanska, LeCun, \"Deep learning with Elastic "
            "Averaging SGD\", NeurIPS 2015, arXiv:1412.6651, equations 5 and "
            "6, synchronous",
        .kept = "weights of its own, and the centre, which is evaluated",
        .staleness =
            "no gradient is late; replicas never meet, but are pulled to the "
            "centre in so many updates as every says",
        .config = "[replicas]\n"
                  "count = 4\n"
                  "policy = \"elastic\"\n"
                  "every = 4\n"
                  "beta = 0.9\n"}},
      {"easgd_one_by_one",
       "the asynchronous form: replicas come to the centre one after the other",
       {.source =
            "Zhang, Choromanska, LeCun, NeurIPS 2015, arXiv:1412.6651, "
            "algorithm 1; round robin in lockstep, in order of arrival with "
            "schedule = 'free'",
        .kept = "weights of its own, and the centre, which is evaluated",
        .staleness =
            "no gradient is late; a replica finds the centre where those "
            "before it have left it",
        .config = "[replicas]\n"
                  "count = 4\n"
                  "policy = \"elastic\"\n"
                  "one_by_one = true\n"
                  "every = 4\n"
                  "beta = 0.9\n"}},
      {"eamsgd",
       "asynchronous EASGD with a momentum in each replica, along which "
       "gradients look ahead",
       {.source =
            "Zhang, Choromanska, LeCun, NeurIPS 2015, arXiv:1412.6651, "
            "algorithm 2; round robin in lockstep, in order of arrival with "
            "schedule = 'free'",
        .kept = "weights and a momentum of its own, and the centre, which is "
                "evaluated",
        .staleness =
            "no gradient is late; a replica finds the centre where those "
            "before it have left it",
        .config = "[replicas]\n"
                  "count = 4\n"
                  "policy = \"elastic\"\n"
                  "one_by_one = true\n"
                  "every = 10\n"
                  "beta = 0.9\n"
                  "\n"
                  "[optimizer]\n"
                  "name = \"sgd\"\n"
                  "momentum = 0.9\n"
                  "look_ahead = true\n"}},
  };
  return kRows;
}

}  // namespace sluice
