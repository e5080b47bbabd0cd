// Published ways to train replicas that exchange with peers, or with a server
// of which each keeps a copy, or that have their weights in one place.
#include "experiments/config/presets/presets.h"

namespace sluice {

std::span<const PresetRow> peer_presets() {
  static constexpr PresetRow kRows[] = {
      {"d_psgd",
       "weights that neighbours on a ring mix before each update",
       {.source = "Lian et al., \"Can Decentralized Algorithms Outperform "
                  "Centralized Algorithms?\", NeurIPS 2017, arXiv:1705.09056, "
                  "algorithm 1",
        .kept = "weights of its own",
        .staleness =
            "no gradient is late; the mean of all replicas moves as theirs "
            "do, and each is near it as far as the graph mixes",
        .config = "[replicas]\n"
                  "count = 4\n"
                  "policy = \"gossip\"\n"
                  "graph = \"ring\"\n"
                  "mix = \"before\"\n"}},
      {"ad_psgd",
       "weights that pairs of neighbours mix, others in each update",
       {.source =
            "Lian et al., \"Asynchronous Decentralized Parallel Stochastic "
            "Gradient Descent\", ICML 2018, arXiv:1710.06952, algorithm 1. In "
            "lockstep pairs are drawn by seed and turn, and no average falls "
            "between a gradient and its step; with schedule = 'free' each "
            "replica meets a neighbour when it is ready",
        .kept = "weights of its own; replicas.count must be even",
        .staleness =
            "none in lockstep; the mean of all replicas moves as theirs do",
        .config = "[replicas]\n"
                  "count = 4\n"
                  "policy = \"gossip\"\n"
                  "graph = \"ring\"\n"
                  "pairs = true\n"
                  "mix = \"before\"\n"}},
      {"noloco",
       "DiLoCo in pairs that are drawn anew, without a mean over all",
       {.source =
            "Kolehmainen et al., \"NoLoCo: No-all-reduce Low Communication "
            "Training Method for Large Models\", 2025, arXiv:2506.10911. every "
            "is 100 there; outer_pull is its gamma over outer_lr, 1 in the "
            "published code. Activations that go to blocks of other replicas "
            "aren't there",
        .kept = "weights of its own, its slow weights, and the outer momentum",
        .staleness =
            "no gradient is late; weights drift apart for so many updates as "
            "every says, and two meet then",
        .config = "[replicas]\n"
                  "count = 4\n"
                  "policy = \"gossip\"\n"
                  "graph = \"complete\"\n"
                  "pairs = true\n"
                  "mix = \"after\"\n"
                  "every = 20\n"
                  "outer_lr = 0.7\n"
                  "outer_momentum = 0.3\n"
                  "\n"
                  "[optimizer]\n"
                  "name = \"adamw\"\n"}},
      {"gossip_grad",
       "weights that each replica mixes with one other, 1, 2, 4, ... places "
       "away",
       {.source =
            "Daily et al., \"GossipGraD: Scalable Deep Learning using Gossip "
            "Communication based Asynchronous Gradient Descent\", 2018, "
            "arXiv:1803.05880. Samples don't go round: the order of the data "
            "is one for all replicas",
        .kept = "weights of its own",
        .staleness =
            "no gradient is late; after log2 R updates each has heard of all, "
            "and then places change",
        .config = "[replicas]\n"
                  "count = 4\n"
                  "policy = \"gossip\"\n"
                  "graph = \"hops\"\n"
                  "rotate = true\n"
                  "mix = \"after\"\n"}},
      {"sgp",
       "weights pushed to one that is drawn, and divided by what came of them",
       {.source =
            "Assran et al., \"Stochastic Gradient Push for Distributed Deep "
            "Learning\", ICML 2019, arXiv:1811.10792, algorithm 1. graph = "
            "\"hops\" is its own graph; messages that come a step late aren't "
            "there",
        .kept = "weights of its own, the sums that they are a part of, and its "
                "share",
        .staleness =
            "no gradient is late; sums and shares of all replicas stay what "
            "they are",
        .config = "[replicas]\n"
                  "count = 4\n"
                  "policy = \"gossip\"\n"
                  "graph = \"random\"\n"
                  "push_sum = true\n"
                  "mix = \"after\"\n"}},
      {"nearest_neighbours",
       "steps by the gradients of neighbours beside the own one, no averages",
       {.source =
            "NNT: Viviani et al., \"Deep Learning at Scale\", PDP 2019, "
            "doi:10.1109/EMPDP.2019.8671552, in lockstep: gradients are of "
            "the same turn. adopt_every = 1 has all go on with the best "
            "one's weights after each epoch",
        .kept = "weights of its own",
        .staleness =
            "none in updates; a gradient of a neighbour is of its weights, "
            "and not of those that it is applied to. Two and three on a ring "
            "stay equal; from four on, and on a torus, they run apart at any "
            "learning rate, until adopt_every has them meet",
        .config = "[replicas]\n"
                  "count = 4\n"
                  "policy = \"neighbours\"\n"
                  "graph = \"ring\"\n"}},
      {"downpour",
       "a server that steps by one replica's gradient after the other",
       {.source =
            "Dean et al., \"Large Scale Distributed Deep Networks\", NIPS "
            "2012, section 4.1, with a push and a pull in each update: n_push "
            "= n_fetch = 1; round robin in lockstep, in order of arrival with "
            "schedule = 'free'",
        .kept = "the server's weights and those that each replica has pulled: "
                "in lockstep every replica keeps the server",
        .staleness =
            "R - 1 updates, of the server: so many others push between a pull "
            "and the push that follows it; as measured with schedule = 'free'",
        .config = "[replicas]\n"
                  "count = 4\n"
                  "policy = \"server\"\n"}},
      {"dc_asgd",
       "Downpour whose gradients are carried to the server's weights",
       {.source =
            "Zheng et al., \"Asynchronous Stochastic Gradient Descent with "
            "Delay Compensation\", ICML 2017, arXiv:1609.08326, algorithm 2, "
            "constant, round robin",
        .kept = "as Downpour",
        .staleness =
            "R - 1 updates, of the server; lambda g g (w - w_bak) is added to "
            "the gradient g, w_bak being what its replica had pulled",
        .config = "[replicas]\n"
                  "count = 4\n"
                  "policy = \"server\"\n"
                  "\n"
                  "[optimizer.correction]\n"
                  "name = \"delay_compensation\"\n"
                  "strength = 0.04\n"}},
      {"dc_asgd_adaptive",
       "the same with a strength that follows the size of gradients",
       {.source = "Zheng et al., ICML 2017, arXiv:1609.08326, "
                  "adaptive, round robin",
        .kept = "as Downpour, and in the optimizer a mean of squared gradients",
        .staleness =
            "as dc_asgd, with lambda divided by the root of the mean of "
            "squared gradients",
        .config = "[replicas]\n"
                  "count = 4\n"
                  "policy = \"server\"\n"
                  "\n"
                  "[optimizer.correction]\n"
                  "name = \"delay_compensation\"\n"
                  "adaptive = true\n"
                  "strength = 2.0\n"}},
      {"async_diloco",
       "DiLoCo whose replicas push movements to a server one by one, with a "
       "delayed Nesterov momentum",
       {.source =
            "Liu et al., \"Asynchronous Local-SGD Training for Language "
            "Modeling\", 2024, arXiv:2401.09135: delayed Nesterov momentum "
            "with c = 0, whose N is outer_every; in order of arrival, with "
            "schedule = 'lockstep' round robin. Dynamic local updates (DyLU) "
            "are a list, every = [20, 15, 7, 5]: a run measures no speeds",
        .kept = "as Downpour; the server, or in lockstep each replica, also "
                "the outer momentum and the sum of the last pushes",
        .staleness = "a movement begins at weights of so many pushes ago as "
                     "others have made since its pull",
        .config = "schedule = \"free\"\n"
                  "\n"
                  "[replicas]\n"
                  "count = 4\n"
                  "policy = \"server\"\n"
                  "push = \"movement\"\n"
                  "every = 20\n"
                  "outer_lr = 0.7\n"
                  "outer_momentum = 0.9\n"
                  "outer_every = 4\n"
                  "\n"
                  "[optimizer]\n"
                  "name = \"adamw\"\n"}},
      {"staleness_aware",
       "Downpour whose rate is divided by how stale a gradient is",
       {.source =
            "Zhang et al., \"Staleness-aware Async-SGD for Distributed Deep "
            "Learning\", IJCAI 2016, arXiv:1511.05950, equation 6, one "
            "gradient to an update, round robin",
        .kept = "as Downpour",
        .staleness =
            "R - 1 updates, of the server, by which its learning rate is "
            "divided",
        .config = "[replicas]\n"
                  "count = 4\n"
                  "policy = \"server\"\n"
                  "\n"
                  "[optimizer.correction]\n"
                  "name = \"staleness_aware\"\n"}},
      {"softsync",
       "a server that waits for some gradients, whoever brings them",
       {.source =
            "Zhang et al., \"Staleness-aware Async-SGD for Distributed Deep "
            "Learning\", IJCAI 2016, arXiv:1511.05950, n-softsync: a step by "
            "the mean of R / n gradients, each divided by its staleness",
        .kept = "as Downpour",
        .staleness =
            "what a clock makes of it, about n updates of the server; counted "
            "for each gradient, which is divided by it",
        .config = "schedule = \"free\"\n"
                  "\n"
                  "[replicas]\n"
                  "count = 4\n"
                  "policy = \"server\"\n"
                  "softsync = 2\n"}},
      {"agn",
       "movements of some updates, divided by these, that a server adds",
       {.source =
            "Hermans, Spanakis, Moeckel, \"Accumulated Gradient "
            "Normalization\", ACML 2017, arXiv:1710.02368, algorithm 1; also "
            "called ADAG; round robin",
        .kept =
            "weights of its own, and as Downpour those that each has pulled",
        .staleness =
            "R - 1 movements of others lie between a pull and the push that "
            "follows it; no single gradient is late",
        .config = "[replicas]\n"
                  "count = 4\n"
                  "policy = \"server\"\n"
                  "push = \"movement\"\n"
                  "every = 5\n"
                  "per_update = true\n"}},
      {"hogwild",
       "one copy of the weights in memory, to which each adds without a lock",
       {.source =
            "Niu et al., \"HOGWILD!: A Lock-Free Approach to Parallelizing "
            "Stochastic Gradient Descent\", NIPS 2011, arXiv:1106.5730, "
            "algorithm 1, with batch_size = 1. Weights are read and added to "
            "one by one, by atomic operations; engine = \"threads\" races, "
            "engine = \"virtual\" has the order of its clock",
        .kept = "a copy of the weights on which it computes, and its "
                "optimizer's state",
        .staleness =
            "as many updates as others add between its reading and its adding: "
            "up to R - 1 where all are equally fast, and unbounded in "
            "principle; d_upd counts them",
        .config = "[replicas]\n"
                  "count = 4\n"
                  "policy = \"shared\"\n"}},
      {"hogbatch",
       "the same with a batch to an update, so that products stay dense",
       {.source =
            "HogBatch: Sallinen et al., \"High Performance Parallel Stochastic "
            "Gradient Descent in Shared Memory\", IPDPS 2016, "
            "doi:10.1109/IPDPS.2016.107: the keys of hogwild, with a "
            "batch_size "
            "above 1",
        .kept = "as Hogwild!",
        .staleness = "as Hogwild!, in fewer updates for as many samples",
        .config = "[replicas]\n"
                  "count = 4\n"
                  "policy = \"shared\"\n"}},
  };
  return kRows;
}

}  // namespace sluice
