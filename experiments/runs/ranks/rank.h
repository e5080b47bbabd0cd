#pragma once

#include <functional>
#include <optional>
#include <string>

namespace sluice {

/// The value of an environment variable, or nothing.
using Environment =
    std::function<std::optional<std::string>(const std::string& name)>;
Environment process_environment();

/// Number of this process among several that something else has started with
/// the same command line: rank r is the worker of block r + 1, and rank 0
/// coordinates too.
struct Rank {
  std::string starter = {};  ///< "mpirun", "srun" or "torchrun", for messages
  std::string mpi = {};      ///< "Open MPI", "MPICH": whose mpirun it is
  int number = 0;
  int count = 1;
  /// Number among the ranks of its host, from 0, by which it takes a GPU;
  /// `number` where the starter doesn't say it.
  int local = 0;
  /// Name of the job, equal for all its ranks and for no other process on this
  /// host, in characters of a file name.
  std::string job = {};
  bool one_host = true;
  /// Address at which rank 0 listens for ranks on several hosts, "host:port";
  /// empty: unknown.
  std::string master = {};
};

/// Reads what OpenMPI (OMPI_COMM_WORLD_*), Slurm (SLURM_STEP_*, SLURM_PROCID)
/// or torchrun and its like (RANK, WORLD_SIZE) leave in the environment, and
/// MASTER_ADDR and MASTER_PORT, in that order. Nothing for a process on its
/// own, and in Slurm for one that srun didn't start. Throws UserError for a
/// variable that is no number, or ranks out of range.
std::optional<Rank> rank_from(const Environment& environment);

}  // namespace sluice
