// `sluice` without `data fetch`, whose libraries bring 31 MB of tables of
// Unicode: what scripts/test-gpu packs.
#include "experiments/program/command_line.h"
#include "lib/base/own_image.h"
#include "lib/base/process_start.h"

int main(int argc, char** argv) {
  sluice::begin_process();
  sluice::let_large_writes_fail();
  return sluice::run_command_line(argc, argv, {});
}
