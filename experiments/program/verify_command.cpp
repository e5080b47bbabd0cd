// `sluice verify` and `sluice replay`: that numbers don't depend on what runs
// the blocks.
#include <string>

#include <fmt/format.h>

#include "experiments/program/commands.h"
#include "experiments/runs/processes/stop_signals.h"
#include "experiments/runs/uses/replay.h"
#include "experiments/runs/uses/verify.h"
#include "lib/base/files/user_text.h"
#include "lib/base/own_image.h"

namespace sluice {
namespace {

std::string verdict_of(const VerifyResult& verified, std::size_t index) {
  const std::string& difference = verified.engines[index].difference;
  const std::string against = verified.is_free ? "its replay: " : "";
  if (!difference.empty()) return against + "differs at " + difference;
  const bool is_reference = index == 0 && !verified.is_free;
  return is_reference ? "what the others are compared with"
                      : against + "same bits";
}

}  // namespace

int verify_command(const VerifyArguments& arguments) {
  StopSignals signals;  // before LibTorch has threads
  const auto read = [&](const std::vector<std::string>& overrides) {
    ConfigArguments config = arguments.config;
    config.overrides.insert(config.overrides.end(), overrides.begin(),
                            overrides.end());
    return experiment_of(config);
  };
  const VerifyResult verified = verify({.engines = arguments.engines,
                                        .turns = arguments.turns,
                                        .program = kOwnImage,
                                        .read = read,
                                        .changes = arguments.changes},
                                       signals);
  put("engine     blocks  turns  verdict\n");
  for (std::size_t i = 0; i < verified.engines.size(); ++i)
    put("{:<10} {:>6}  {:>5}  {}\n", verified.engines[i].engine,
        verified.blocks, verified.turns, verdict_of(verified, i));
  put("Computed by {}: equal bits want the same of each\n", verified.maker);
  return verified.is_same() ? 0 : 1;
}

int replay_command(const std::string& folder) {
  const ReplayResult replayed = replay(folder);
  put("block    turn  hash of its weights  verdict\n");
  for (const CheckpointComparison& one : replayed.compared)
    put("{:>5}  {:>6}  {:<19}  {}\n",
        one.replica == 1 ? fmt::format("{}", one.block)
                         : fmt::format("{}.{}", one.block, one.replica),
        one.turn, one.hash,
        one.difference.empty() ? "same bits" : one.difference + " differs");
  const std::string difference = replayed.difference();
  put("{}: {}\n", folder,
      difference.empty() ? "same bits" : "differs first at " + difference);
  if (!difference.empty() && !replayed.rate.empty())
    put("When the run was continued, {}; the replay has the rates of its last "
        "part throughout: the likely cause\n",
        replayed.rate);
  if (!replayed.makers.empty())
    put("The run and this replay were computed by others: {}{}\n",
        replayed.makers,
        difference.empty() ? ""
                           : ": the likely cause; equal bits want the "
                             "same of each");
  return difference.empty() ? 0 : 1;
}

}  // namespace sluice
