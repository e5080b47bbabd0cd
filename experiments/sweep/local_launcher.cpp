#include "experiments/sweep/local_launcher.h"

#include <chrono>
#include <thread>

#include "experiments/sweep/run_jobs.h"

namespace sluice::sweep {
namespace {

constexpr std::chrono::milliseconds kBetweenSteps{10};

}  // namespace

LocalLauncher::LocalLauncher(SweepRuns& runs, const SweepOptions& options,
                             const std::atomic<bool>& is_stopped)
    : runs_(runs),
      options_(options),
      is_stopped_(is_stopped),
      slots_(runs, options, [&runs](const RunJob& job, const RunEnd& end) {
        print_end_of(job, end, runs);
      }) {}

void LocalLauncher::run(const std::vector<std::size_t>& cells, double rung) {
  for (const RunJob& job : jobs_of(runs_, cells, rung, options_))
    slots_.add(job);
  try {
    work();
  } catch (...) {  // a full disk, say: what runs shall save what it has
    slots_.stop_and_wait();
    throw;
  }
}

void LocalLauncher::work() {
  for (;;) {
    if (is_stopped_) slots_.stop();
    slots_.step();
    if (slots_.is_idle()) return;
    std::this_thread::sleep_for(kBetweenSteps);
  }
}

}  // namespace sluice::sweep
