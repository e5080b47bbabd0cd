#include "experiments/sweep/launcher.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "experiments/config/toml.h"
#include "experiments/divergence.h"
#include "experiments/run_folder.h"
#include "experiments/sweep/axis_text.h"
#include "experiments/sweep/halving.h"
#include "experiments/sweep/run_process.h"
#include "experiments/sweep/sweep_text.h"
#include "lib/base/error.h"
#include "lib/base/file.h"
#include "lib/device.h"
#include "lib/schedules/free_running.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using Kind = RunState::Kind;

constexpr std::chrono::milliseconds kLook{10};
/// As stop_signals.cpp has it: stopped before there was something to save.
constexpr int kInterrupted = 130;

/// The GPUs that this process may use, by the names that CUDA_VISIBLE_DEVICES
/// has for them.
std::vector<std::string> usable_gpus() {
  const int count = count_gpus();
  std::vector<std::string> names;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody writes the environment
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible != nullptr && *visible != 0) names = split_values(visible);
  for (int i = static_cast<int>(names.size()); i < count; ++i)
    names.push_back(std::to_string(i));
  names.resize(static_cast<std::size_t>(count));
  return names;
}

/// Slots share GPUs where there are fewer of them.
std::vector<std::string> gpus_by_slot(int slots) {
  const std::vector<std::string> names = usable_gpus();
  std::vector<int> numbers(names.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  std::vector<std::string> texts;
  for (const std::vector<int>& part : divided(numbers, slots)) {
    std::vector<std::string> own;
    own.reserve(part.size());
    for (const int number : part)
      own.push_back(names[static_cast<std::size_t>(number)]);
    texts.push_back(fmt::format("{}", fmt::join(own, ",")));
  }
  return texts;
}

/// A config that names its GPUs by number means those.
bool takes_any_gpu(const Experiment& experiment) {
  return std::all_of(experiment.devices.begin(), experiment.devices.end(),
                     [](const std::string& name) { return name == "cuda"; });
}

std::int64_t threads_of_run(const std::string& folder, std::int64_t otherwise) {
  const ConfigNode config = read_toml_file(config_of_run(folder));
  const ConfigNode* threads = config.find("threads");
  const auto* number =
      threads == nullptr ? nullptr : std::get_if<std::int64_t>(&threads->value);
  return number == nullptr ? otherwise : *number;
}

std::string reason_of(const ChildEnd& end) {
  if (end.signal != 0)
    return fmt::format("its process was ended by signal {}", end.signal_text);
  std::string line = end.error;
  const std::string_view before = "sluice: ";
  if (line.starts_with(before)) line.erase(0, before.size());
  return line.empty()
             ? fmt::format("its process ended with status {}", end.status)
             : line;
}

/// It did what a signal asks for, whoever sent it.
bool was_stopped(const ChildEnd& end) {
  return end.status == kStopped || end.status == kInterrupted ||
         end.signal == SIGTERM || end.signal == SIGINT;
}

}  // namespace

Launcher::Launcher(SweepRuns& runs, const SweepOptions& options,
                   const std::atomic<bool>& is_stopped)
    : runs_(runs), options_(options), is_stopped_(is_stopped) {
  const auto cores = divided(usable_cores(), options.jobs);
  const auto gpus = gpus_by_slot(options.jobs);
  for (std::size_t i = 0; i < cores.size(); ++i) {
    slots_.emplace_back();
    slots_.back().share = {.cores = cores[i], .gpu = gpus[i]};
  }
}

void Launcher::queue(SweepRun& run, double rung) {
  const bool has_failed = !run.failure.empty();
  const bool is_anew = options_.again && (run.state.kind == Kind::other ||
                                          !run.other_build().empty());
  if (!is_anew && (run.is_done() || (has_failed && !options_.retry))) return;
  std::int64_t turn = 0;
  if (rung > 0) turn = turn_of_rung(runs_.experiment_of(run), rung);
  if (!is_anew && turn > 0 && has_reached(run, turn)) return;
  waiting_.push_back({&run, turn, options_.retry && !has_failed});
}

void Launcher::run(const std::vector<std::size_t>& cells, double rung) {
  for (SweepRun& run : runs_.all())
    if (std::find(cells.begin(), cells.end(), run.cell) != cells.end())
      queue(run, rung);
  try {
    work();
  } catch (...) {  // a full disk, say: what runs shall save what it has
    stop_all();
    for (Slot& slot : slots_)
      while (slot.child && !slot.child->poll())
        std::this_thread::sleep_for(kLook);
    throw;
  }
}

void Launcher::work() {
  bool is_told = false;
  for (;;) {
    if (!is_stopped_) fill_slots();
    if (is_stopped_ && !std::exchange(is_told, true)) stop_all();
    if (!some_run()) return;
    std::this_thread::sleep_for(kLook);
    for (Slot& slot : slots_) collect(slot);
  }
}

void Launcher::stop_all() {
  for (Slot& slot : slots_)
    if (slot.child) slot.child->stop();
}

bool Launcher::some_run() const {
  return std::any_of(slots_.begin(), slots_.end(),
                     [](const Slot& slot) { return slot.child != nullptr; });
}

void Launcher::fill_slots() {
  for (Slot& slot : slots_) {
    if (slot.child || waiting_.empty()) continue;
    const Job job = waiting_.front();
    waiting_.pop_front();
    start(slot, job);
  }
}

void Launcher::start(Slot& slot, Job job) {
  const SweepRun& run = *job.run;
  const Experiment experiment = runs_.experiment_of(run);
  const bool is_new = run.is_done() || run.state.kind == Kind::other ||
                      (options_.again && !run.other_build().empty());
  const bool has_checkpoint = run.state.kind == Kind::unfinished;
  // Blocks that ran free can't be continued.
  const bool resume =
      has_checkpoint && !is_new && !runs_free(experiment.plans.front());
  ConfigNode config = experiment.resolved;
  if (runs_.leaves_threads_open(run)) {
    const auto cores = std::ssize(slot.share.cores);
    std::int64_t threads =
        std::max<std::int64_t>(1, cores / experiment.blocks());
    // Threads move the last bits, so a run keeps those that it began with.
    if (resume) threads = threads_of_run(run.folder, threads);
    config.set("threads", {.value = threads});
  }
  fs::create_directories(fs::path(run.folder).parent_path());
  fs::remove(failure_file(run.folder));
  fs::remove(pruned_file(run.folder));
  std::vector<std::string> argv = {options_.program, "run-of-sweep",
                                   "--dir",          run.folder,
                                   "--parent",       std::to_string(::getpid()),
                                   "--command",      options_.command};
  if (job.pause_turn > 0)
    argv.insert(argv.end(), {"--pause", std::to_string(job.pause_turn)});
  if (resume)
    argv.emplace_back("--resume");
  else if (run.state.kind != Kind::absent)
    argv.emplace_back("--overwrite");
  slot.child = std::make_unique<ChildRun>(argv, to_toml(config),
                                          share_for(slot, experiment));
  slot.job = job;
  slot.started = std::chrono::steady_clock::now();
}

Share Launcher::share_for(const Slot& slot,
                          const Experiment& experiment) const {
  Share share = slot.share;
  if (slots_.size() < 2 || !takes_any_gpu(experiment)) share.gpu.clear();
  return share;
}

void Launcher::collect(Slot& slot) {
  if (!slot.child) return;
  const std::optional<ChildEnd> end = slot.child->poll();
  if (!end) return;
  slot.child.reset();
  finish(slot, *end);
}

void Launcher::finish(Slot& slot, const ChildEnd& end) {
  SweepRun& run = *slot.job.run;
  runs_.look_at(run);
  if (end.status == 0 && run.is_done()) {
    const double seconds = std::chrono::duration<double>(
                               std::chrono::steady_clock::now() - slot.started)
                               .count();
    return say(run, fmt::format("{}, {:.1f} s",
                                figures_text(run.state.evaluation), seconds));
  }
  const std::int64_t turn = slot.job.pause_turn;
  if (end.status == kStopped && turn > 0 && has_reached(run, turn))
    return say(
        run,
        fmt::format("{} after turn {}",
                    figures_text(evaluation_until(run.folder, turn)), turn));
  if (was_stopped(end))
    return say(run, run.state.kind == Kind::unfinished
                        ? "stopped, with a checkpoint"
                        : "stopped, and begins anew");
  Job job = slot.job;
  // The same bits again would diverge again.
  if (end.status == kDivergedStatus) job.may_retry = false;
  fail(job, reason_of(end));
}

void Launcher::fail(const Job& job, const std::string& reason) {
  SweepRun& run = *job.run;
  if (job.may_retry && !is_stopped_) {
    waiting_.push_back({&run, job.pause_turn, false});
    return say(run, fmt::format("failed, and is tried again: {}", reason));
  }
  run.failure = reason;
  write_file_atomically(failure_file(run.folder),
                        [&](std::ostream& file) { file << reason << '\n'; });
  say(run, "failed: " + reason);
}

void Launcher::say(const SweepRun& run, const std::string& text) const {
  const auto& all = runs_.all();
  const auto done = std::count_if(all.begin(), all.end(),
                                  [](const auto& r) { return r.is_done(); });
  const auto given_up = std::count_if(
      all.begin(), all.end(),
      [](const auto& r) { return !r.failure.empty() || r.is_pruned; });
  fmt::print("[{}/{}] {}: {}; {} left\n", done, all.size(), runs_.name_of(run),
             text, std::ssize(all) - done - given_up);
  std::fflush(stdout);
}

}  // namespace sluice
