// `sluice help plan`.
#include <fmt/format.h>

#include "experiments/config/manual.h"
#include "experiments/planner/machine.h"
#include "experiments/program/commands.h"

namespace sluice {

void help_plan_command() {
  fmt::print(
      R"(sluice plan CONFIG --compare [--method NAME]... [--blocks 2,4]
            [--seconds 60] [--machine FILE] [key=value ...]

Measures on this machine, then predicts for each method and number of blocks K
the time of a batch and an epoch, the speed-up over one block that
back-propagates, how busy blocks are, what is sent, and the memory of each.

How. Each block does some turns of its schedule between neighbours that are made
up: alone, then at the same time as others, as many as there are cores for. One
block that does all the work is measured right before each, so that other load
on the machine falls on both. The simulator runs the schedule with these seconds:
a block whose neighbours compute half of the time takes the mean of both. Rounds
of this are repeated for --seconds; what is printed is the median, with the
quartiles. Where they are more than 10 % apart, where other programs took more
than a tenth of the cores, or where there was time for less than three rounds, it
says "doubtful".

Where exact gradients pass a boundary and none is delayed, the first round also
tries pipelines: the orders 1f1b and zb-h1 (gpipe too where messages take time)
with K, 2 K and 4 K micro_batches. The fastest gets a line and is measured on.
"idle" is the bubble: the part of their time in which the blocks wait. More
micro_batches leave less of it, but BatchNorm sees smaller batches, and small
ones take longer for a sample.

Not in it: what it takes to carry messages (give --latency and --bandwidth),
evaluations, checkpoints. Threads are those that `sluice run` would take: set
threads=1 to compare at equal numbers. Nobody else should compute meanwhile.

"no gain here": less than 1.05 x one block.

sluice what-if RUN [--blocks 4 | --blocks 0-3,4-] [--machine FILE]
               [--latency S] [--bandwidth BYTES/S] [--slow 2x0.5]...

The same from the trace.json of a run: the seconds of its actions, turn by turn,
without what they waited, and the latency of messages that were waited for. First it predicts
the run as it was, beside what was measured; then with what is to be changed.
Other blocks get the seconds of their layers by the cost model's part of each
layer in its block, which is rougher than to measure them.

--machine FILE describes where the blocks shall be, in TOML:

    [[device]]
    count = 2                   # two of them
    speed = 1.5                 # times as fast as this machine
    memory = 8e9

    [link]
    latency = 1e-4
    bandwidth = 1e9

Consecutive blocks are dealt out evenly; one block alone goes to the fastest
device. Threads are 1 there unless the config says more. In full:
)");
  fmt::print("{}", config_manual(machine_manual()));
}

}  // namespace sluice
