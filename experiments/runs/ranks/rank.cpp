#include "experiments/runs/ranks/rank.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>

#include <fmt/format.h>
#include <unistd.h>

#include "lib/base/error.h"

namespace sluice {
namespace {

/// The variables in which a starter gives each process its rank, among all and
/// among those of its host. `hosts` holds the number of hosts; without it,
/// `local` that of the ranks on this one.
struct Starter {
  const char* name;
  const char* rank;
  const char* count;
  const char* hosts;
  const char* local;
  const char* local_rank;
  std::array<const char*, 2> job;
  const char* mpi = "";
};

constexpr std::array kStarters = {
    Starter{.name = "mpirun",
            .rank = "OMPI_COMM_WORLD_RANK",
            .count = "OMPI_COMM_WORLD_SIZE",
            .hosts = nullptr,
            .local = "OMPI_COMM_WORLD_LOCAL_SIZE",
            .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
            .job = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"},
            .mpi = "Open MPI"},
    // The variables of the job step: a batch script has those of the job, and
    // is one process.
    Starter{.name = "srun",
            .rank = "SLURM_PROCID",
            .count = "SLURM_STEP_NUM_TASKS",
            .hosts = "SLURM_STEP_NUM_NODES",
            .local = nullptr,
            .local_rank = "SLURM_LOCALID",
            .job = {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
    // MPICH's, which names no job: on a host its ranks have one parent. After
    // srun, which may set the first two for MPI's sake.
    Starter{.name = "mpirun",
            .rank = "PMI_RANK",
            .count = "PMI_SIZE",
            .hosts = nullptr,
            .local = "MPI_LOCALNRANKS",
            .local_rank = "MPI_LOCALRANKID",
            .job = {nullptr, nullptr},
            .mpi = "MPICH"},
    Starter{.name = "torchrun",
            .rank = "RANK",
            .count = "WORLD_SIZE",
            .hosts = nullptr,
            .local = "LOCAL_WORLD_SIZE",
            .local_rank = "LOCAL_RANK",
            .job = {"MASTER_PORT", "TORCHELASTIC_RUN_ID"}}};

int number_in(const Environment& environment, const std::string& name) {
  const std::string text = environment(name).value_or("");
  int number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size())
    throw UserError("the environment variable {} is '{}', no number", name,
                    text);
  return number;
}

std::string job_of(const Starter& starter, const Environment& environment) {
  std::string job = starter.name;
  for (const char* name : starter.job)
    job += "-" + (name == nullptr ? std::to_string(::getppid())
                                  : environment(name).value_or(""));
  std::replace_if(
      job.begin(), job.end(),
      [](unsigned char c) { return std::isalnum(c) == 0; }, '-');
  return job;
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

/// MASTER_ADDR, an IPv6 address without the brackets that it may have.
std::optional<std::string> host_in(const Environment& environment) {
  std::optional<std::string> host = environment("MASTER_ADDR");
  if (!host) return host;
  std::string inside = *host;
  if (inside.starts_with('[') && inside.ends_with(']') && inside.size() > 2)
    inside = inside.substr(1, inside.size() - 2);
  if (inside.find_first_of("[]") != inside.npos)
    throw UserError(
        "MASTER_ADDR is '{}', no address: write 10.0.0.1, ::1 or a name",
        *host);
  return inside;
}

std::string master_in(const Environment& environment, bool one_host) {
  constexpr int kMostPort = 65535;
  const auto host = host_in(environment);
  if (!host || !environment("MASTER_PORT")) return "";
  int port = number_in(environment, "MASTER_PORT");
  // Ranks on one host meet elsewhere, so any free port will do.
  const int least = one_host ? 0 : 1;
  if (port < least || port > kMostPort)
    throw UserError(
        "MASTER_PORT is {}: ranks on several hosts meet at a port that all of "
        "them know, from 1 to {}; set MASTER_PORT=29500",
        port, kMostPort);
  // torchrun's own store listens on that port: take the one beside it.
  if (environment("TORCHELASTIC_USE_AGENT_STORE") == "True")
    port += port < kMostPort ? 1 : -1;
  return host->find(':') == host->npos ? fmt::format("{}:{}", *host, port)
                                       : fmt::format("[{}]:{}", *host, port);
}

bool is_one_host(const Starter& starter, const Environment& environment,
                 int count) {
  if (starter.hosts && environment(starter.hosts))
    return number_in(environment, starter.hosts) == 1;
  if (starter.local && environment(starter.local))
    return number_in(environment, starter.local) == count;
  return is_loopback(host_in(environment).value_or("localhost"));
}

int local_rank_in(const Starter& starter, const Environment& environment,
                  int number) {
  if (!environment(starter.local_rank)) return number;
  const int local = number_in(environment, starter.local_rank);
  if (local < 0)
    throw UserError("{} is {}: ranks of a host are numbered from 0",
                    starter.local_rank, local);
  return local;
}

}  // namespace

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    // Nothing in this process changes the environment.
    const char* value = std::getenv(name.c_str());  // NOLINT
    if (value == nullptr) return std::nullopt;
    return value;
  };
}

std::optional<Rank> rank_from(const Environment& environment) {
  for (const Starter& starter : kStarters) {
    if (!environment(starter.rank) || !environment(starter.count)) continue;
    Rank rank{.starter = starter.name,
              .mpi = starter.mpi,
              .number = number_in(environment, starter.rank),
              .count = number_in(environment, starter.count)};
    if (rank.number < 0 || rank.number >= rank.count)
      throw UserError("{} is {}, but {} is {}: ranks are 0 to {}", starter.rank,
                      rank.number, starter.count, rank.count, rank.count - 1);
    if (rank.count == 1) continue;
    rank.job = job_of(starter, environment);
    rank.one_host = is_one_host(starter, environment, rank.count);
    rank.master = master_in(environment, rank.one_host);
    rank.local = local_rank_in(starter, environment, rank.number);
    return rank;
  }
  return std::nullopt;
}

}  // namespace sluice
