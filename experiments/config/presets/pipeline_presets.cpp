#include "experiments/config/presets/presets.h"

namespace sluice {

std::span<const PresetRow> pipeline_presets() {
  static constexpr PresetRow kRows[] = {
      {"gpipe",
       "all forwards of a turn's micro-batches, then all backwards",
       {.source = "Huang et al., \"GPipe: Efficient Training of Giant Neural "
                  "Networks using Pipeline Parallelism\", NeurIPS 2019, "
                  "arXiv:1811.06965",
        .kept = "a block keeps the inputs of a turn's micro-batches, and "
                "forwards each again before its backward (recompute)",
        .staleness = "none: has the bits of one block",
        .config = "[pipeline]\n"
                  "order = \"gpipe\"\n"
                  "micro_batches = 4\n"
                  "recompute = true\n\n"
                  "[boundary]\n"
                  "policy = \"backprop\"\n"}},
      {"pipedream_flush",
       "1F1B: backwards as early as they can, and a flush after each turn",
       {.source = "Narayanan et al., ICML 2021, arXiv:2006.09503, as "
                  "PipeDream-Flush; the order of DAPPLE and Megatron-LM",
        .kept = "block k keeps the graphs of up to K-k+1 micro-batches",
        .staleness = "none: has the bits of one block",
        .config = "[pipeline]\n"
                  "order = \"1f1b\"\n"
                  "micro_batches = 4\n\n"
                  "[boundary]\n"
                  "policy = \"backprop\"\n"}},
      {"zb_h1",
       "1F1B whose backwards have halves: what waits for nobody fills the gaps",
       {.source = "Qi et al., \"Zero Bubble Pipeline Parallelism\", ICLR 2024, "
                  "arXiv:2401.10241, ZB-H1",
        .kept = "block k keeps as many graphs as 1F1B, part of them for the "
                "half of a backward that is left",
        .staleness = "none: has the bits of one block",
        .config = "[pipeline]\n"
                  "order = \"zb-h1\"\n"
                  "micro_batches = 4\n\n"
                  "[boundary]\n"
                  "policy = \"backprop\"\n"}},
      {"zb_v",
       "two blocks an executor, one of either half, and backwards in halves",
       {.source = "Qi et al., \"Zero Bubble Pipeline Parallelism\", ICLR 2024, "
                  "arXiv:2401.10241, ZB-V: its handcrafted order, for an even "
                  "number of blocks",
        .kept = "an executor keeps the graphs of up to K micro-batches in its "
                "two blocks together",
        .staleness = "none: has the bits of one block",
        .config = "blocks = 4\n\n"
                  "[pipeline]\n"
                  "order = \"zb-v\"\n"
                  "micro_batches = 4\n\n"
                  "[boundary]\n"
                  "policy = \"backprop\"\n"}},
      {"pipedream",
       "late gradients, each of the weights of its forward",
       {.source = "Narayanan et al., \"PipeDream: Generalized Pipeline "
                  "Parallelism for DNN Training\", SOSP 2019, "
                  "arXiv:1806.03377, weight stashing, one worker for a stage; "
                  "block for block the same sequence as DDG",
        .kept = "block k keeps K-k+1 batches: their graphs and the weights of "
                "their forwards",
        .staleness = "w(t+1) = w(t) - lr * gradient at (w_1(t-K+1), "
                     "w_2(t-K+2), ..., w_K(t)): K-k in block k, in batches and "
                     "in updates",
        .config = "[boundary]\n"
                  "policy = \"delayed_gradient\"\n"
                  "weights = \"stash\"\n"}},
      {"pipedream_mixed",
       "PipeDream without weight stashing",
       {.source = "Narayanan et al., SOSP 2019, arXiv:1806.03377, without the "
                  "weight stashing of section 3.3",
        .kept = "block k keeps the graphs of K-k+1 batches, and one version of "
                "its weights",
        .staleness =
            "K-k in block k, in batches and in updates; a backward "
            "meets the activations of its forward with the present weights, "
            "which is the gradient of no function",
        .config = "[boundary]\n"
                  "policy = \"delayed_gradient\"\n"
                  "weights = \"mixed\"\n"}},
      {"vertical_sync",
       "PipeDream with one version of the weights for a batch in all blocks",
       {.source = "Narayanan et al., SOSP 2019, arXiv:1806.03377, section 3.3 "
                  "(vertical sync)",
        .kept = "block k keeps the graphs of K-k+1 batches and K versions of "
                "its weights, the present one included. The number of the "
                "version with which block "
                "1 forwarded a batch is sent up with its activations",
        .staleness = "w(t+1) = w(t) - lr * gradient at w(t-K+1): K-1 updates "
                     "in every block, K-k batches in block k. Has the bits of "
                     "one block with gradients that are K-1 updates old",
        .config = "[boundary]\n"
                  "policy = \"delayed_gradient\"\n"
                  "weights = \"vertical_sync\"\n"}},
      {"pipelined_backprop",
       "a forward and a backward in each tick, at the present weights",
       {.source = "Petrowski, Dreyfus, Girault 1993; Chen et al., "
                  "\"Pipelined Back-Propagation for Context-Dependent Deep "
                  "Neural Networks\", Interspeech 2012. The tick of a turn is "
                  "turn + k - 1",
        .kept = "block k keeps the graphs of 2(K-k)+1 batches",
        .staleness =
            "2(K-k) in block k, in batches and in updates; a backward "
            "meets the activations of its forward with the present weights",
        .config = "[boundary]\n"
                  "policy = \"fully_decoupled\"\n"
                  "order = \"A\"\n"
                  "beta = 1.0\n"
                  "weights = \"mixed\"\n"}},
      {"pipedream_2bw",
       "1f1b without flushes, at the weights before the last update",
       {.source = "Narayanan et al., \"Memory-Efficient Pipeline-Parallel DNN "
                  "Training\", ICML 2021, arXiv:2006.09503",
        .kept = "block k keeps the graphs of K-k+1 batches, of up to K-k more "
                "where M is above K-1, and two versions of its weights; "
                "micro_batches = M must be K-1 or more",
        .staleness = "w(j+1) = w(j) - lr * gradient at w(j-1) of turn j: one "
                     "update in every block. Has the bits of one block, for "
                     "every K",
        .config = "drop_last = true\n\n"
                  "[pipeline]\n"
                  "order = \"1f1b\"\n"
                  "micro_batches = 4\n"
                  "weights = \"double_buffer\"\n"
                  "flush = false\n\n"
                  "[boundary]\n"
                  "policy = \"backprop\"\n"}},
      {"pipemare",
       "late gradients at weights that are moved back, and smaller first steps",
       {.source = "Yang et al., \"PipeMare: Asynchronous Pipeline Parallel DNN "
                  "Training\", MLSys 2021, arXiv:1910.05124: T1 is the "
                  "correction, T2 the weights. T3, synchronous epochs at the "
                  "beginning, is a [[timetable]] that begins with policy = "
                  "\"backprop\"",
        .kept = "block k keeps the graphs of K-k+1 batches; of its weights "
                "the present ones, those that a backward sees, and their "
                "velocity",
        .staleness =
            "K-k in block k, in batches and in updates. Until "
            "anneal_turns the rate is lower the staler a block is; a "
            "backward sees the present weights less their velocity times "
            "the staleness",
        .config = "[boundary]\n"
                  "policy = \"delayed_gradient\"\n"
                  "weights = \"extrapolate\"\n"
                  "decay = 0.1\n\n"
                  "[optimizer]\n"
                  "correction = {name = \"pipemare\", anneal_turns = 1000}\n"}},
      {"petra",
       "reversible blocks that rebuild their inputs, and keep nothing",
       {.source =
            "PETRA: Rivaud et al., \"PETRA: Parallel End-to-end Training with "
            "Reversible Architectures\", ICLR 2025, arXiv:2406.02052. For "
            "model.name = \"revnet\"; accumulate.batches is its k",
        .kept = "a block whose layers can all be inverted keeps labels, and "
                "one version of its weights: its output comes back with the "
                "gradient, and its input is rebuilt from that. Other blocks "
                "keep the inputs of 2(K-k)+1 batches",
        .staleness =
            "2(K-k) in block k, in batches; accumulation over M batches "
            "divides that in updates by M. A backward is that of a forward "
            "with the present weights, whose input is rebuilt with the "
            "present weights too: the batch's but for rounding as long as "
            "weights stay, and otherwise about that",
        .config = "accumulate = {batches = 2, rule = \"mean\"}\n\n"
                  "[boundary]\n"
                  "policy = \"fully_decoupled\"\n"
                  "order = \"A\"\n"
                  "weights = \"rebuilt\"\n"
                  "statistics = \"replay\"\n",
        .model = "{name = 'revnet', width = 8, blocks = [4]}"}},
      {"amp",
       "messages in the order of arrival, some batches at once, updates in "
       "place",
       {.source =
            "AMPNet: Gaunt et al., \"AMPNet: Asynchronous Model-Parallel "
            "Training for Dynamic Neural Networks\", 2017, arXiv:1705.09786, "
            "on a chain of blocks. in_flight is its max active keys (mak): "
            "block 1 lets in so many batches; accumulate.batches is its min "
            "update frequency (muf), and accumulate.by_block one for each "
            "block",
        .kept = "a block keeps the graphs of up to in_flight batches, and one "
                "version of its weights",
        .staleness =
            "as blocks are fast: at most in_flight - 1 batches, and "
            "ceil((in_flight - 1) / batches) updates of a block with windows "
            "of so many batches; a backward meets the activations of its "
            "forward with the present weights. in_flight = 1 has the bits of "
            "back-propagation",
        .config = "schedule = \"free\"\n"
                  "in_flight = 4\n"
                  "priority = \"arrival\"\n"
                  "accumulate = {batches = 2}\n\n"
                  "[boundary]\n"
                  "policy = \"delayed_gradient\"\n"
                  "weights = \"mixed\"\n"}},
  };
  return kRows;
}

}  // namespace sluice
