// The `sluice` program.
#include "experiments/program/command_line.h"
#include "experiments/program/data_commands.h"
#include "lib/base/early_exit.h"
#include "lib/base/own_image.h"
#include "lib/base/process_start.h"
#include "lib/base/stopping_signals.h"

namespace {

/// LibTorch takes SIGHUP over as it is loaded, which nohup has ignored.
[[gnu::section(".preinit_array"),
  gnu::used]] void (*const note_first)() = sluice::note_ignored_signals;

}  // namespace

int main(int argc, char** argv) {
  sluice::begin_process();
  sluice::let_large_writes_fail();
  sluice::watch_for_early_exit("sluice");
  return sluice::reached_end(
      sluice::run_command_line(argc, argv,
                               {.fetch = sluice::data_fetch_command,
                                .fetchable = sluice::fetchable_sets(),
                                .fetched = sluice::fetched_sets}));
}
