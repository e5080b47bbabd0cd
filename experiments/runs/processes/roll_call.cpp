#include "experiments/runs/processes/roll_call.h"

#include <fstream>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "experiments/config/files/json.h"
#include "experiments/runs/processes/own_terms.h"
#include "lib/base/error.h"
#include "lib/base/files/file.h"
#include "lib/base/files/user_text.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

/// Most lines about refused calls: strangers could fill a disk otherwise. The
/// last reason is printed at the end.
constexpr std::size_t kMostTold = 5;

std::string name_of(int rank) {
  return fmt::format("rank {}", rank);
}

/// Adds a key to the part of run.json that is about this start of the run.
void add_to_run_file(const std::string& folder, const char* key, Json value) {
  const std::string path = folder + "/run.json";
  std::ifstream file(path);
  Json run = Json::parse(file);
  Json& part = run.contains("continued") ? run["continued"].back() : run;
  part[key] = std::move(value);
  write_file_atomically(path,
                        [&](std::ostream& out) { out << run.dump(2) << "\n"; });
}

}  // namespace

RollCall::RollCall(const Experiment& experiment, std::int64_t first_turn)
    : mine_(terms_of(experiment, first_turn)),
      equal_builds_(experiment.equal_builds) {}

void RollCall::judge_in(RendezvousOptions& options) {
  options.run = to_text(mine_);
  options.judge = [this](std::uint32_t block, const std::string& text) {
    const int rank = static_cast<int>(block) - 1;
    // Our own child has read the config that we wrote.
    return rank == 0 ? "" : judge(rank, text);
  };
}

std::string RollCall::judge(int rank, const std::string& text) {
  try {
    Terms its = terms_from(text);
    std::string reason = why_refused(mine_, its, rank, equal_builds_);
    const std::lock_guard lock(mutex_);
    theirs_[rank] = std::move(its);
    return reason;
  } catch (const LinkError& error) {
    return fmt::format("{} can't take part: {}", name_of(rank), error.what());
  }
}

void RollCall::record_builds(const std::string& folder) {
  const std::lock_guard lock(mutex_);
  Json builds = {{name_of(0), json_of(mine_.build)}};
  for (const auto& [rank, its] : theirs_) {
    const std::string other = other_build(mine_, its, rank);
    if (other.empty()) continue;
    say("sluice: {}: {}\n", other, kBuildsMatter);
    builds[name_of(rank)] = json_of(its.build);
  }
  if (builds.size() > 1) add_to_run_file(folder, "builds", std::move(builds));
}

std::string awaited_text(const Rendezvous& rendezvous) {
  std::string ranks;
  const std::vector<std::uint32_t> blocks = rendezvous.awaited();
  for (const std::uint32_t block : blocks)
    ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", block - 1);
  return fmt::format("rank 0 waits for rank{} {} at {}",
                     blocks.size() == 1 ? "" : "s", ranks,
                     rendezvous.address());
}

std::string RefusalNotices::next() {
  const Refusals all = rendezvous_.refusals();
  if (all.count == told_ || told_ >= kMostTold) return "";
  told_ = all.count;
  return fmt::format("rank 0 refused a connection: {}{}", all.last,
                     told_ >= kMostTold ? "; more are not told" : "");
}

}  // namespace sluice
