#include "experiments/runs/processes/ranks.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "experiments/runs/processes/own_terms.h"
#include "experiments/runs/processes/restarts.h"
#include "experiments/runs/processes/worker_process.h"
#include "experiments/runs/ranks/ended_call.h"
#include "experiments/runs/ranks/note.h"
#include "experiments/runs/ranks/wait_notice.h"
#include "experiments/runs/seats/assembly.h"
#include "lib/base/error.h"
#include "lib/base/files/user_text.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/engines/control.h"
#include "transport/links/tcp.h"
#include "transport/meeting/transports.h"

namespace sluice {
namespace {

constexpr std::chrono::milliseconds kPoll(20);

/// Time that rank 0 may take to say where it listens: it reads the samples
/// first.
std::chrono::milliseconds patience_of(const Experiment& experiment) {
  constexpr std::chrono::milliseconds kStart = std::chrono::minutes(1);
  return std::max<std::chrono::milliseconds>(
      std::chrono::seconds(experiment.timeout_seconds), kStart);
}

void check_hosts(const Rank& rank, const Experiment& experiment) {
  if (experiment.transport != kAutoTransport &&
      !transport_of(experiment.transport).encrypted)
    throw UserError(
        "{} has started processes on several hosts, but transport is '{}': set "
        "transport = 'tls', or 'auto'",
        rank.starter, experiment.transport);
  if (rank.master.empty())
    throw UserError(
        "{} has started processes on several hosts: set MASTER_ADDR and "
        "MASTER_PORT in their environment to where rank 0 may listen",
        rank.starter);
  secret_of(rank);  // before anything is waited for or written
}

WorkerArguments from_note(const Note& note) {
  return {.folder = note.folder,
          .address = note.address,
          .resume = note.resume,
          .faults = note.faults};
}

/// Hosts have no other place in common than the run's folder.
WorkerArguments from_command_line(const Rank& rank,
                                  const Experiment& experiment,
                                  const RankArguments& arguments) {
  if (arguments.folder.empty())
    throw UserError(
        "{} has started processes on several hosts: give the run's folder "
        "with --dir, on a file system that all of them see",
        rank.starter);
  return {.folder = std::filesystem::absolute(arguments.folder),
          .address = rank.master,
          .resume = arguments.resume
                        ? restart_point(experiment, arguments.folder).checkpoint
                        : ""};
}

/// Address of rank 0, and the secret that proves that this process belongs to
/// the run.
struct Address {
  WorkerArguments worker;
  Secret secret;
};

Address look_for_rank_0(const Rank& rank, const Experiment& experiment,
                        const RankArguments& arguments,
                        std::optional<WaitNotice>& notice) {
  const auto say = [&](const std::string& where) {
    notice.emplace([text = fmt::format("rank {} waits for rank 0 {}",
                                       rank.number, where)] { return text; },
                   patience_of(experiment));
  };
  if (rank.one_host) {
    say("to write " + path_of_note(rank.job));
    const Note note = wait_for_note(rank.job, patience_of(experiment));
    return {from_note(note), note.secret};
  }
  Address found = {from_command_line(rank, experiment, arguments),
                   secret_of(rank)};
  say("to listen at " + found.worker.address);
  wait_for_listener(found.worker.address, patience_of(experiment));
  return found;
}

}  // namespace

namespace {

constexpr std::chrono::seconds kTimeToTellRank0 = 2 * kTimeToCall;

/// Posts the reason, and waits until rank 0 has taken the note.
void post_for_rank_0(const Rank& rank, const std::string& reason) {
  const auto end = std::chrono::steady_clock::now() + kTimeToTellRank0;
  const PostedNote note(path_of_note(job_of_ended(rank.job, rank.number)),
                        {.refusal = reason});
  while (std::filesystem::exists(note.path()) &&
         std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(kPoll);
}

/// Posts the reason, and waits until all other ranks have said that they ended.
void post_for_others(const Rank& rank, const std::string& reason) {
  const auto end = std::chrono::steady_clock::now() + kTimeToCall;
  const PostedNote note(path_of_note(rank.job), {.refusal = reason});
  EndedRanks ended(rank);
  while (ended.count() + 1 < rank.count &&
         std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(kPoll);
    ended.look();
  }
}

/// By a call; what it waits for, and why, is said where that takes a while.
void tell_other_hosts(const Rank& rank, const std::string& error,
                      const std::string& reason) {
  const Secret secret = secret_of(rank);
  const bool is_first = rank.number == 0;
  const auto patience = is_first ? kTimeToCall : kTimeToTellRank0;
  const WaitNotice notice(
      [&] {
        return fmt::format("rank {} ends, and tells {} {}: {}", rank.number,
                           is_first ? "the ranks that call"
                                    : "rank 0, as soon as it listens at",
                           rank.master, error);
      },
      patience);
  if (is_first)
    refuse_callers(rank, secret, reason, patience);
  else
    call_with_reason(rank, secret, reason, patience);
}

/// Whether a rank has called rank 0, or looked for it in vain.
bool has_called(const Rank& rank, const std::exception& error) {
  return rank.number > 0 && dynamic_cast<const LinkError*>(&error) != nullptr;
}

}  // namespace

std::string EndedRanks::look() {
  std::string first;
  for (int number = 1; number < rank_.count; ++number) {
    const std::string reason = take_refusal(rank_.job, number);
    if (reason.empty()) continue;
    ended_.insert(number);
    if (first.empty()) first = reason;
  }
  return first;
}

void tell_ranks(const Rank& rank, const std::exception& error) {
  if (rank.count == 1) return;
  const std::string text = text_of(error);
  const std::string reason =
      fmt::format("rank {} has ended: {}", rank.number, text);
  try {
    if (rank.one_host)
      rank.number == 0 ? post_for_others(rank, reason)
                       : post_for_rank_0(rank, reason);
    else if (!rank.master.empty() && !has_called(rank, error))
      tell_other_hosts(rank, text, reason);
  } catch (const std::exception&) {
    // No rank can be reached. The caller throws the error itself.
  }
}

void check_rank(const Rank& rank, const Experiment& experiment) {
  if (experiment.engine != Engine::processes)
    throw UserError(
        "{} has started {} processes, but engine is '{}': set engine = "
        "'processes', or start one",
        rank.starter, rank.count, name_of(experiment.engine));
  if (experiment.plans.front().blocks.front().placement.is_shared())
    throw UserError(
        "{}: a rank has one block, and order = '{}' gives several to one "
        "process: set pipeline.order = '1f1b', or start it without {}",
        rank.starter, experiment.pipeline.order, rank.starter);
  if (rank.count != experiment.seats())
    throw UserError(
        "{} has started {} processes, but the network has {} blocks{}: start "
        "one process per block{}",
        rank.starter, rank.count, experiment.blocks(),
        experiment.replicas.count == 1
            ? ""
            : fmt::format(" in {} replicas", experiment.replicas.count_text()),
        experiment.replicas.count == 1 ? "" : " and replica");
  if (experiment.restart_on_failure)
    throw UserError(
        "on_failure = 'restart': workers that {} has started can't be started "
        "again by rank 0; set on_failure = 'stop', and continue with --resume",
        rank.starter);
  if (!rank.one_host) check_hosts(rank, experiment);
}

Secret secret_of(const Rank& rank) {
  if (rank.one_host) return make_secret();
  const Environment environment = process_environment();
  if (const auto file = environment("SLUICE_SECRET_FILE"))
    return read_secret(*file);
  if (const auto text = environment("SLUICE_SECRET"))
    return parse_secret(*text, "SLUICE_SECRET");
  throw UserError(
      "{} has started processes on several hosts, which must prove that they "
      "belong together: make a secret with `(umask 077; openssl rand -hex 32 > "
      "FILE)` and set SLUICE_SECRET_FILE=FILE in their environment",
      rank.starter);
}

std::string host_of(const Rank& rank) {
  return rank.one_host ? "" : rank.master;
}

int run_rank(const Rank& rank, const Experiment& experiment,
             const RankArguments& arguments, StopSignals& signals) {
  const std::string name = fmt::format("rank {}", rank.number);
  signals.on_stop([] { std::_Exit(kInterruptedStatus); },
                  fmt::format("Stopped while {} waited for rank 0.", name));
  std::optional<WaitNotice> notice;
  Address found = look_for_rank_0(rank, experiment, arguments, notice);
  WorkerArguments& worker = found.worker;
  worker.block = rank.number + 1;
  worker.local_rank = rank.local;
  const Terms mine = terms_of(experiment, turn_of(worker.resume).value_or(0));
  notice.emplace(
      [text = fmt::format("{} called rank 0 at {} and waits for its answer",
                          name, worker.address)] { return text; },
      rendezvous_options(experiment, found.secret).patience);
  const auto joined = [&](const std::string& terms) {
    notice.reset();
    // What is sent to all ranks is for rank 0: it lets them finish their turns.
    signals.on_stop([] {});
    const std::string other = other_build(terms_from(terms), mine, rank.number);
    if (!other.empty()) say("sluice: {}: {}\n", other, kBuildsMatter);
  };
  prepare_process(experiment);
  return work_in_run(experiment, worker, found.secret,
                     {.terms = to_text(mine), .joined = joined});
}

}  // namespace sluice
