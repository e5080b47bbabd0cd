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

How. Each block does some turns of its schedule with made-up neighbours: first
alone, then at the same time as others, as many as there are cores for. One
block that does all the work is measured right before each, so that other load
on the machine affects both. The simulator runs the schedule with these seconds:
a block whose neighbours compute half of the time takes the mean of both. Rounds
of this are repeated for --seconds; the median is printed, with the quartiles.
Where these are more than 10 % apart, where other programs took more than a
tenth of the cores, or where there was time for less than three rounds, it says
"doubtful".

Where exact gradients pass a boundary and none is delayed, the first round also
tries pipelines: the orders 1f1b and zb-h1 (gpipe too where messages take time)
with K, 2 K and 4 K micro_batches. The fastest gets a line, and is measured in
the later rounds too. "idle" is the bubble: the part of the time in which the
blocks wait. More
micro_batches leave less of it, but BatchNorm sees smaller batches, and small
ones take longer for a sample.

Left out: the time that messages take (give --latency and --bandwidth),
evaluations, checkpoints. Threads are as many as `sluice run` would use: set
threads=1 to compare at equal numbers. No other program should compute
meanwhile.

"no gain here" means less than 1.05 x one block.

sluice what-if RUN [--blocks 4 | --blocks 0-3,4-] [--machine FILE]
               [--latency S] [--bandwidth BYTES/S] [--slow 2x0.5]...

Predicts from the trace.json of a run: from the seconds of its actions, turn by
turn, without the time that they waited, and from the latency of messages that a
block waited for. First it predicts the run as it was, beside what was measured;
then with the changes. Where blocks are cut anew, the seconds of a block are
shared out among its layers by the cost model, which is less exact than to
measure them.

--machine FILE describes where the blocks shall be, in TOML:

    [[device]]
    count = 2                   # two of them
    speed = 1.5                 # times as fast as this machine
    memory = 8e9

    [link]
    latency = 1e-4
    bandwidth = 1e9

Consecutive blocks are dealt out evenly to the devices; the one block that the
speed-up is over goes to the fastest. A block has 1 thread there unless the
config says more. All keys:
)");
  fmt::print("{}", config_manual(machine_manual()));
}

}  // namespace sluice
