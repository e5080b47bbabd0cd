#include "experiments/sweep/slots.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "experiments/config/files/toml.h"
#include "experiments/runs/folder/run_folder.h"
#include "experiments/runs/sinks/divergence.h"
#include "experiments/sweep/file/axis_text.h"
#include "experiments/sweep/halving.h"
#include "experiments/sweep/run_process.h"
#include "lib/base/error.h"
#include "lib/base/processors.h"
#include "lib/base/stopping_signals.h"
#include "lib/tensors/device.h"

namespace sluice::sweep {
namespace {

namespace fs = std::filesystem;
using Kind = RunState::Kind;

constexpr std::chrono::milliseconds kBetweenPolls{10};
/// Exit status of a run that was stopped before there was anything to save
/// (runs/stop_signals.h).
constexpr int kEndedAtOnce = 130;

/// The GPUs that this process may use, by the names that CUDA_VISIBLE_DEVICES
/// has for them.
std::vector<std::string> usable_gpus() {
  const int count = count_gpus();
  std::vector<std::string> names;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): environment is read-only
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

std::string end_in_words(const ChildEnd& end) {
  if (end.signal != 0)
    return fmt::format("its process was ended by signal {}", end.signal_text);
  std::string line = end.error;
  const std::string_view before = "sluice: ";
  if (line.starts_with(before)) line.erase(0, before.size());
  if (!line.empty()) return line;
  if (end.status == 0)
    return "it ended without an evaluation, by which runs are compared: a "
           "program's own loop tells one with net.record()";
  return fmt::format("its process ended with status {}", end.status);
}

/// Whether the run ended as a signal asks, from whatever sender.
bool was_stopped(const ChildEnd& end) {
  const sigset_t asks = stopping_signals();
  return end.status == kStopped || end.status == kEndedAtOnce ||
         (end.signal > 0 && sigismember(&asks, end.signal) == 1);
}

}  // namespace

Slots::Slots(SweepRuns& runs, const SweepOptions& options, EndCallback ended)
    : runs_(runs), options_(options), ended_(std::move(ended)) {
  const auto cores = divided(usable_cores(), options.jobs);
  const auto gpus = gpus_by_slot(options.jobs);
  for (std::size_t i = 0; i < cores.size(); ++i) {
    slots_.emplace_back();
    slots_.back().share = {.cores = cores[i], .gpu = gpus[i]};
  }
}

void Slots::add(const RunJob& job) {
  waiting_.push_back(job);
}

void Slots::step() {
  for (Slot& slot : slots_) collect(slot);
  for (Slot& slot : slots_) {
    if (is_stopping_ || slot.child || waiting_.empty()) continue;
    const RunJob job = waiting_.front();
    waiting_.pop_front();
    start(slot, job);
  }
}

bool Slots::is_idle() const {
  return (waiting_.empty() || is_stopping_) &&
         std::none_of(slots_.begin(), slots_.end(),
                      [](const Slot& slot) { return slot.child != nullptr; });
}

void Slots::stop() {
  is_stopping_ = true;
  for (Slot& slot : slots_)
    if (slot.child) slot.child->stop();
}

bool Slots::stop(const SweepRun& run) {
  std::erase_if(waiting_, [&](const RunJob& job) { return job.run == &run; });
  for (Slot& slot : slots_)
    if (slot.child && slot.job.run == &run) {
      slot.child->stop();
      return true;
    }
  return false;
}

void Slots::stop_and_wait() {
  stop();
  for (Slot& slot : slots_)
    while (slot.child && !slot.child->poll())
      std::this_thread::sleep_for(kBetweenPolls);
}

void Slots::start(Slot& slot, const RunJob& job) {
  const SweepRun& run = *job.run;
  const Experiment experiment = runs_.experiment_of(run);
  const bool resume = is_continued(run, experiment, options_);
  ConfigNode config = experiment.resolved;
  if (runs_.leaves_threads_open(run)) {
    std::int64_t threads = threads_for(slot, experiment);
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

std::int64_t Slots::threads_for(const Slot& slot,
                                const Experiment& experiment) const {
  // A quota names no cores: slots share it.
  const std::int64_t share =
      usable_processors() / static_cast<std::int64_t>(slots_.size());
  const auto cores =
      options_.cores > 0
          ? options_.cores
          : std::min<std::int64_t>(std::ssize(slot.share.cores), share);
  return std::max<std::int64_t>(1, cores / experiment.blocks());
}

MachineShare Slots::share_for(const Slot& slot,
                              const Experiment& experiment) const {
  MachineShare share = slot.share;
  if (slots_.size() < 2 || !takes_any_gpu(experiment)) share.gpu.clear();
  return share;
}

void Slots::collect(Slot& slot) {
  if (!slot.child) return;
  const std::optional<ChildEnd> end = slot.child->poll();
  if (!end) return;
  slot.child.reset();
  const RunEnd what = end_of(slot, *end);
  ended_(slot.job, what);
}

RunEnd Slots::end_of(const Slot& slot, const ChildEnd& end) {
  SweepRun& run = *slot.job.run;
  runs_.look_at(run);
  const double seconds = std::chrono::duration<double>(
                             std::chrono::steady_clock::now() - slot.started)
                             .count();
  // A signal may have come when all was done.
  if ((end.status == 0 || was_stopped(end)) && run.is_done())
    return {.kind = RunEnd::Kind::done, .seconds = seconds};
  const std::int64_t turn = slot.job.pause_turn;
  if (end.status == kStopped && turn > 0 && has_reached(run, turn))
    return {.kind = RunEnd::Kind::at_rung};
  if (was_stopped(end)) return {.kind = RunEnd::Kind::stopped};
  RunJob job = slot.job;
  // A retry would compute the same bits, and diverge again.
  if (end.status == kDivergedStatus) job.may_retry = false;
  return failed(job, end_in_words(end));
}

RunEnd Slots::failed(const RunJob& job, const std::string& reason) {
  if (job.may_retry && !is_stopping_) {
    waiting_.push_back({job.run, job.pause_turn, false});
    return {.kind = RunEnd::Kind::again, .reason = reason};
  }
  mark_failed(*job.run, reason);
  return {.kind = RunEnd::Kind::failed, .reason = reason};
}

}  // namespace sluice::sweep
