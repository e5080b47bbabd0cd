// `sluice help plan`.
#include <fmt/format.h>

#include "experiments/config/manual/manual.h"
#include "experiments/planner/machine.h"
#include "experiments/program/commands.h"

namespace sluice {

void help_plan_command() {
  fmt::print(
      R"(sluice plan CONFIG --compare [--method NAME]... [--blocks 2,4]
            [--seconds 60] [--machine FILE] [key=value ...]

Measures on this machine, then predicts for each method and number of blocks K
the time of a batch and an epoch, the speed-up over a single block that
back-propagates, the utilisation and memory of each block, and the bytes that
are sent.

How: each block does some turns of its schedule with simulated neighbours, first
alone, then at the same time as other blocks, as many as there are cores for.
Right before each measurement a single block does all the work and is measured,
so that other load on the machine affects both. The simulator runs the schedule
with these durations: a block whose neighbours compute half of the time takes
the mean of its durations alone and beside others. Such rounds are repeated for
--seconds; the median is printed, with the quartiles. A prediction is marked
"doubtful" where the quartiles are more than 10 % apart, where other programs
used more than a tenth of the cores, or where there was time for fewer than
three rounds.

Where exact gradients pass a boundary and none is delayed, the first round also
tries pipelines: the orders 1f1b and zb-h1 (gpipe too where messages take time)
with K, 2 K and 4 K micro_batches. The fastest gets a line, and is measured in
the later rounds too. "idle" is the pipeline's bubble: the part of the time in
which the blocks wait. More micro_batches make it shorter, but BatchNorm sees
smaller batches, and a sample takes longer in a small batch.

Left out: evaluations, checkpoints, and the time that messages take (unless
--latency and --bandwidth are given). The number of threads is that of `sluice
run`: set threads=1 to compare at equal numbers. No other program should be
busy meanwhile.

"no gain here" means a predicted speed-up below 1.05.

sluice what-if RUN [--blocks 4 | --blocks 0-3,4-] [--machine FILE]
               [--latency S] [--bandwidth BYTES/S] [--slow 2x0.5]...

Predicts from the trace.json of a run: from the durations of its actions, turn
by turn and without waiting, and from the latency of the messages that a block
waited for. The first prediction is of the run as it was, beside the measured
values; the second is with the changes. Where blocks are cut anew, the time of a
block is divided among its layers by the cost model, which is less exact than
measuring them.

--machine FILE is a TOML file with the devices that the blocks are to run on:

    [[device]]
    count = 2                   # two of them
    speed = 1.5                 # times as fast as this machine
    memory = 8e9

    [link]
    latency = 1e-4
    bandwidth = 1e9

With flops in place of speed, what a device attains per second, nothing is
measured: durations follow from the operations of layers and heads, so that
networks are planned that this machine couldn't train. Updates, loading and what
isn't a layer's take no time then, and memory isn't predicted. See
experiments/configs/models and docs/machines.

Consecutive blocks are spread evenly over the devices; the single block with
which the speed-up is compared runs on the fastest. A block has 1 thread there
unless the config sets more. All keys:
)");
  fmt::print("{}", config_manual(planner::machine_manual()));
}

}  // namespace sluice
