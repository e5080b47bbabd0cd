#include "experiments/program/commands.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "experiments/card/run_card.h"
#include "experiments/config/experiment.h"
#include "experiments/config/files/common_keys.h"
#include "experiments/config/files/extends.h"
#include "experiments/config/files/overrides.h"
#include "experiments/config/left_out.h"
#include "experiments/config/reading/read_experiment.h"
#include "experiments/config/reading/start_checks.h"
#include "experiments/config/tables/plugin_keys.h"
#include "experiments/runs/checkpoints/repartition.h"
#include "experiments/runs/checkpoints/resumed_replicas.h"
#include "experiments/runs/folder/evaluated_data.h"
#include "experiments/runs/folder/newest.h"
#include "experiments/runs/folder/run_folder.h"
#include "experiments/runs/processes/ranks.h"
#include "experiments/runs/processes/restarts.h"
#include "experiments/runs/processes/stop_signals.h"
#include "experiments/runs/run.h"
#include "experiments/runs/seats/assembly.h"
#include "experiments/runs/uses/evaluation.h"
#include "experiments/sweep/ask_tell.h"
#include "experiments/sweep/file/read_sweep.h"
#include "experiments/sweep/run_sweep.h"
#include "lib/base/error.h"
#include "lib/base/files/user_text.h"
#include "lib/base/own_image.h"
#include "lib/checkpoints/safetensors.h"
#include "lib/metrics/accuracy_text.h"
#include "transport/links/hello.h"

namespace sluice {

ConfigNode config_of(const ConfigArguments& arguments) {
  ConfigNode config;
  config.value = ConfigNode::Table{};
  if (!arguments.config.empty())
    config = read_config_to_run(arguments.config, arguments.overrides);
  for (const std::string& text : arguments.overrides)
    apply_override(config, text);
  add_plugins(arguments.plugins, config);
  if (const ConfigNode* sweep = config.find("sweep"))
    throw UserError("{}: sweep: is for many runs; start them with sluice sweep",
                    sweep->origin.text());
  return config;
}

std::string data_root() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): before there are other threads
  const char* root = std::getenv("SLUICE_DATA");
  if (root == nullptr || *root == 0) return "";
  // The path is made absolute: a resolved config is read from other folders
  // too.
  return std::filesystem::absolute(root).lexically_normal().string();
}

Experiment read_and_tell(const ConfigNode& config) {
  Experiment experiment = read_experiment(config, data_root());
  tell_left_out(experiment.left_out);
  return experiment;
}

Experiment read_to_start(const ConfigNode& config) {
  Experiment experiment = read_and_tell(config);
  tell_left_out(check_start(experiment));
  return experiment;
}

Experiment experiment_of(const ConfigArguments& arguments) {
  return read_and_tell(config_of(arguments));
}

namespace {

std::shared_ptr<FolderLock> lock_to_resume(const RunArguments& arguments) {
  if (!arguments.folder.empty() || arguments.overwrite)
    throw UserError("--resume goes with neither --dir nor --overwrite");
  return lock_run(arguments.resume);
}

/// The run's own config; what was typed after --resume are overrides, the first
/// of which the command line took for the config.
ConfigArguments config_to_resume(const RunArguments& arguments) {
  last_checkpoint(arguments.resume);  // there is one
  ConfigArguments config = arguments.config;
  const std::string first =
      std::exchange(config.config, config_of_run(arguments.resume));
  if (first.find('=') != first.npos)
    config.overrides.insert(config.overrides.begin(), first);
  else if (!first.empty())
    throw UserError(
        "--resume {} takes the run's own config, not {}; overrides like "
        "epochs=10 may follow",
        arguments.resume, first);
  return config;
}

/// Overrides of `key` and of keys below it.
std::vector<std::string> those_of(const std::vector<std::string>& overrides,
                                  const std::string& key) {
  std::vector<std::string> found;
  for (const std::string& text : overrides)
    if (text.starts_with(key + "=") || text.starts_with(key + "."))
      found.push_back(text);
  return found;
}

/// The keys, with those of files that may lie elsewhere by now or be taken
/// anew.
std::vector<std::string> with_files(std::vector<std::string> keys) {
  keys.insert(keys.end(), {"data", "model.file", "model.sha256"});
  return keys;
}

/// The continued run as it was, except for overrides of these keys.
Experiment run_but_for(const std::vector<std::string>& keys,
                       const ConfigArguments& config) {
  ConfigArguments own = {config.config, {}, config.plugins};
  for (const std::string& key : keys)
    for (std::string& text : those_of(config.overrides, key))
      own.overrides.push_back(std::move(text));
  return read_experiment(config_of(own), data_root());
}

/// Adds overrides by which the config's replicas take up where the last ones
/// ended.
ConfigArguments with_replicas_of(const std::string& folder,
                                 ConfigArguments config) {
  const RestartPoint from = last_checkpoint(folder);
  const Experiment now = run_but_for(with_files({"replicas"}), config);
  if (!those_of(config.overrides, "replicas").empty())
    check_same_policy(run_but_for(with_files({}), config).replicas,
                      now.replicas, from);
  for (std::string& text : overrides_for_replicas(now, from))
    config.overrides.push_back(std::move(text));
  return config;
}

/// The run's experiment, with another cut or other replicas where overrides say
/// so.
Experiment experiment_to_resume(const RunArguments& arguments) {
  const ConfigArguments config =
      with_replicas_of(arguments.resume, config_to_resume(arguments));
  const std::vector<std::string> cut = those_of(config.overrides, "blocks");
  if (cut.empty()) return experiment_of(config);
  const Experiment run = run_but_for(with_files({}), config);
  ConfigNode blocks = {.value = ConfigNode::Table{}};
  for (const std::string& text : cut) apply_override(blocks, text);
  const Partition ranges = partition(*blocks.find("blocks"), run.model);
  if (ranges == run.ranges) return experiment_of(config);
  return read_and_tell(config_for_cut(run, ranges, config.overrides));
}

/// Memory as text; unknown where Sluice's allocator isn't used.
std::string peak_text(const records::Memory& memory) {
  if (!memory.peak_bytes) return "-";
  return fmt::format("{:.1f}",
                     static_cast<double>(*memory.peak_bytes) / (1 << 20));
}

/// Text on the block's memory as forecast before the first turn.
std::string forecast_text(const RunResult& result, int block) {
  const auto found = result.forecasts.find(block);
  if (found == result.forecasts.end()) return "";
  return fmt::format("  {:>8}", peak_text(found->second.memory));
}

/// Prints parameters, times and memory of each block.
void print_costs(const RunResult& result) {
  if (result.blocks.empty()) return;
  put("block  parameters  forward s  backward s  update s  evaluate s  "
      "waiting s  peak MiB{}\n",
      result.forecasts.empty() ? "" : "  forecast");
  for (const auto& [seat, cost] : result.blocks)
    put("{:>5}  {:>10}  {:>9.2f}  {:>10.2f}  {:>8.2f}  {:>10.2f}  {:>9.2f}  "
        "{:>8}{}\n",
        cost.replica ? fmt::format("{}.{}", cost.block, *cost.replica)
                     : std::to_string(cost.block),
        cost.parameters, cost.forward_s, cost.backward_s, cost.update_s,
        cost.evaluate_s, cost.waiting_s, peak_text(cost.memory),
        forecast_text(result, cost.block));
}

/// Prints the virtual engine's clock, when actions took time there.
void print_clock(const RunResult& result) {
  const auto run = result.clock.find(0);
  if (run == result.clock.end()) return;
  std::string busy;
  for (const auto& [block, clock] : result.clock)
    if (block > 0)
      busy += fmt::format("{}{:.0f} %", busy.empty() ? "" : ", ",
                          100 * clock.utilisation.value_or(0));
  put("Virtual clock: {:.4g} s, {:.4g} samples/s, {:.2f} x one block; blocks "
      "1-{} compute {} of the time; see trace.json\n",
      run->second.seconds.value_or(0),
      run->second.samples_per_second.value_or(0),
      run->second.speed_up.value_or(0), result.clock.size() - 1, busy);
}

void print_dropped(const RunResult& result) {
  for (const auto& [boundary, messages] : result.dropped)
    put("Boundary {} dropped {} of its activations\n", boundary, messages);
}

std::string accuracy_text(
    const std::optional<records::Evaluation>& evaluation) {
  if (!evaluation) return "not evaluated";
  if (std::isnan(evaluation->accuracy))  // the targets are numbers
    return fmt::format("test loss {:.4f}{}", evaluation->loss,
                       with_r2(evaluation->r2));
  return fmt::format("accuracy {:.2f} %", 100 * evaluation->accuracy);
}

/// Prints what checkpoints/best holds, and which split chose it.
void print_best(const RunResult& result) {
  if (!result.best) return;
  const records::Evaluation& best = *result.best;
  const std::string split = choosing_split(best);
  const std::string chosen =
      split == "test"
          ? " (chosen by the test split itself: see data.validation)"
          : fmt::format(", validation loss {:.4f}{}{}",
                        best.validation_loss.value_or(0),
                        with_accuracy(best.validation_accuracy),
                        with_r2(best.validation_r2));
  put("Best by the {} split after turn {}: test loss {:.4f}{}{}{}\n", split,
      best.turn, best.loss, with_accuracy(best.accuracy), with_r2(best.r2),
      chosen);
}

int run_card_command(const RunArguments& arguments, StopSignals& signals) {
  std::vector<std::string> overrides = arguments.config.overrides;
  if (!arguments.config.plugins.empty())
    overrides.push_back(plugins_override(arguments.config.plugins));
  const CardReport report = run_card({.path = arguments.config.config,
                                      .overrides = std::move(overrides),
                                      .folder = arguments.folder,
                                      .only = arguments.only,
                                      .overwrite = arguments.overwrite,
                                      .command = arguments.command,
                                      .program = kOwnImage,
                                      .data_root = data_root()},
                                     signals);
  put("\n{}", markdown_of(report));
  const CardVerdict verdict = report.verdict();
  if (verdict == CardVerdict::open) return 4;
  return verdict == CardVerdict::passed ? 0 : 3;
}

/// "748 samples/s, 95744 tokens/s, 12.3 % of the machine's peak".
std::string rates_text(const RunResult& result) {
  std::string text = fmt::format("{:.0f} samples/s", result.samples_per_second);
  if (result.tokens_per_second)
    text += fmt::format(", {:.0f} tokens/s", *result.tokens_per_second);
  if (result.share_of_peak)
    text += fmt::format(", {:.3g} % of the machine's peak",
                        100 * *result.share_of_peak);
  return text;
}

void print_result(const Experiment& experiment, const RunResult& result) {
  print_costs(result);
  print_clock(result);
  print_dropped(result);
  print_best(result);
  put("{} after {:.1f} s: {}, {}, in {}\n",
      result.complete ? "Done" : "Stopped", result.seconds,
      accuracy_text(result.evaluation), rates_text(result), result.folder);
  if (!result.complete)
    put("To continue: {}\n", way_to_continue(experiment, result.folder));
}

/// Reads the experiment of a run, and prints what the checks of a start find.
Experiment experiment_to_run(const RunArguments& arguments, bool is_checked) {
  if (!arguments.resume.empty()) {
    Experiment experiment = experiment_to_resume(arguments);
    tell_left_out(told_on_resume(experiment));
    return experiment;
  }
  return is_checked ? experiment_of(arguments.config)
                    : read_to_start(config_of(arguments.config));
}

/// is_checked: as a trial of a run whose whole config was.
int run_one(const RunArguments& arguments, bool is_checked,
            const std::optional<Rank>& rank, StopSignals& signals,
            bool& has_begun) {
  const bool resume = !arguments.resume.empty();
  // Locked before the config is read, which another process may be about to
  // change.
  const auto lock = resume && (!rank || rank->number == 0)
                        ? lock_to_resume(arguments)
                        : nullptr;
  const Experiment experiment = experiment_to_run(arguments, is_checked);
  if (rank) check_rank(*rank, experiment);
  const std::string& folder = resume ? arguments.resume : arguments.folder;
  if (rank && rank->number > 0)
    return run_rank(*rank, experiment, {.folder = folder, .resume = resume},
                    signals);
  print_result(experiment, run(experiment,
                               {.folder = folder,
                                .overwrite = arguments.overwrite,
                                .resume = resume,
                                .lock = lock,
                                .faults = arguments.faults,
                                .door = arguments.door,
                                .rank = rank,
                                .on_begin = [&] { has_begun = true; },
                                .command = arguments.command,
                                .program = kOwnImage},
                               signals));
  return 0;
}

}  // namespace

int run_command(const RunArguments& given) {
  StopSignals signals;  // before LibTorch has threads
  const bool resume = !given.resume.empty();
  if (!resume && given.config.config.empty())
    throw UserError("run wants a config, or --resume and a run's folder");
  const RunArguments arguments = given.fast_dev_run ? shortened(given) : given;
  if (!resume && is_card(arguments.config.config)) {
    if (!arguments.faults.empty())
      throw UserError("--inject is for a run; {} is a card of runs",
                      arguments.config.config);
    return run_card_command(arguments, signals);
  }
  if (!arguments.only.empty())
    throw UserError("--only is for cards; {} is none",
                    resume ? "a run" : arguments.config.config);
  const std::optional<Rank> rank = rank_from(process_environment());
  bool has_begun = false;
  try {
    return run_one(arguments, given.fast_dev_run, rank, signals, has_begun);
  } catch (const Disagreement&) {
    throw;  // which the other ranks know
  } catch (const InterruptError&) {
    throw;  // other ranks have signals of their own
  } catch (const std::exception& error) {
    // Send any error before the start to the other ranks; later they notice
    // lost links.
    if (rank && !has_begun) tell_ranks(*rank, error);
    throw;
  }
}

namespace {

std::optional<sweep::SlurmOptions> slurm_of(const SweepArguments& arguments) {
  const bool is_slurm = arguments.launcher == "slurm";
  if (!is_slurm && (!arguments.slurm.empty() || arguments.no_wait))
    throw UserError("--slurm and --no-wait are for --launcher slurm");
  if (!is_slurm) return std::nullopt;
  return sweep::SlurmOptions{arguments.slurm, !arguments.no_wait};
}

void check_ask_tell(const SweepArguments& arguments) {
  if (arguments.launcher != "local")
    throw UserError("--ask-tell runs on this machine; leave out --launcher");
  if (!arguments.seeds.empty() || arguments.samples || arguments.zip ||
      !arguments.done_rows.empty() || arguments.dry_run)
    throw UserError(
        "--ask-tell: the driver says what is run; leave out --seeds, "
        "--samples, --zip, --done and --dry-run");
}

/// Refuses what needs a program without a loop of its own: that program alone
/// knows its layers and turns.
void check_own_loop(const SweepArguments& arguments,
                    const sweep::Sweep& sweep) {
  if (!arguments.loop.read) return;
  if (arguments.launcher != "local" || arguments.ask_tell ||
      !arguments.done_rows.empty() || !arguments.config.plugins.empty())
    throw UserError(
        "the runs of a program with a loop of its own are done on this "
        "machine, and its layers are its own: leave out --launcher, "
        "--ask-tell, --done and --plugin");
  if (sweep.halving)
    throw UserError(
        "sweep.halving: stops runs after some epochs, and a loop of one's own "
        "has none; leave it out");
}

}  // namespace

int sweep_command(const SweepArguments& arguments) {
  StopSignals signals;  // before LibTorch has threads
  if (arguments.ask_tell) check_ask_tell(arguments);
  sweep::Sweep sweep = sweep::read_sweep(
      arguments.config.config, {.settings = arguments.config.overrides,
                                .seeds = arguments.seeds,
                                .samples = arguments.samples,
                                .zip = arguments.zip});
  add_plugins(arguments.config.plugins, sweep.config);
  check_own_loop(arguments, sweep);
  const std::optional<sweep::SlurmOptions> slurm = slurm_of(arguments);
  const sweep::SweepOptions options = {
      .folder = arguments.folder,
      .jobs = arguments.jobs.value_or(slurm ? 0 : 1),
      .slurm = slurm,
      .retry = arguments.on_failure == "retry",
      .again = arguments.again,
      .done_rows = arguments.done_rows,
      .dry_run = arguments.dry_run,
      .command = arguments.command,
      // Slurm's nodes start the program by its path.
      .program = slurm ? path_of_own_image() : kOwnImage,
      .data_root = data_root(),
      .read = arguments.loop.read,
      .continues = arguments.loop.continues};
  const sweep::SweepResult result =
      arguments.ask_tell ? sweep::answer_proposals(sweep, options, signals,
                                                   {STDIN_FILENO, stdout})
                         : sweep::run_sweep(sweep, options, signals);
  if (arguments.dry_run || result.is_submitted) return 0;
  if (!result.is_over()) return 4;
  return result.failed > 0 ? 3 : 0;
}

namespace {

const char* name_of_split(const EvalArguments& arguments) {
  if (arguments.validation) return "validation";
  return arguments.train ? "training" : "test";
}

const Split& split_of(const EvalArguments& arguments,
                      const Experiment& experiment) {
  const DataSet& data = *experiment.data;
  if (arguments.validation && !data.has_validation())
    throw UserError(
        "{}: was trained without a validation split; leave out --validation, "
        "or train with data.validation = 0.1",
        arguments.path);
  if (arguments.validation) return data.validation;
  return arguments.train ? data.train : data.test;
}

void evaluate_found(const EvalArguments& arguments,
                    const EvaluationTarget& found) {
  ConfigArguments config = arguments.config;
  if (config.config.empty()) config.config = found.config;
  if (config.config.empty())
    throw UserError("{}: belongs to no run; name its config with --config",
                    arguments.path);
  const Experiment experiment = experiment_of(config);
  const Split& split = split_of(arguments, experiment);
  const auto& overrides = arguments.config.overrides;
  check_evaluated_data(
      experiment, found.config,
      {.split = name_of_split(arguments),
       .has_config = !arguments.config.config.empty(),
       .has_overrides = !those_of(overrides, "data").empty() ||
                        !those_of(overrides, "limit").empty()});
  const Evaluation result = evaluate(experiment, found.read_from, split);
  put("{}: {} loss {:.4f}{}{} of {}\n", found.weights, name_of_split(arguments),
      result.loss(), with_accuracy(result.accuracy()), with_r2(result.r2()),
      result.labels());
  check_is_finite(result, experiment, split, name_of_split(arguments));
  if (arguments.logits.empty()) return;
  write_safetensors(arguments.logits, first_logits(experiment, found.read_from,
                                                   split, arguments.samples));
}

}  // namespace

void eval_command(const EvalArguments& arguments) {
  use_newest(
      [&] { return find_evaluated(arguments.path); },
      [](const EvaluationTarget& found) { return found.read_from; },
      [&](const EvaluationTarget& found) { evaluate_found(arguments, found); });
}

}  // namespace sluice
