#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "lib/base/messages/channel.h"
#include "lib/replicas/group.h"

namespace sluice {

/// Whether this build has MPI; without it, all below throws UserError.
bool has_mpi();
/// "MPICH" or "Open MPI": whose mpirun must start the ranks; empty: none.
std::string_view mpi_name();

/// MPI in this process, from its initialisation to its end, for threads that
/// take turns (MPI_THREAD_SERIALIZED; calls are made under one mutex). MPI can
/// be initialised once in the life of a process.
class MpiSession {
 public:
  /// Initialises MPI, unless somebody else has: then they end it too.
  MpiSession();
  /// MPI_Finalize(), which waits for the other ranks: not where they may be
  /// waiting for this one, that is during an exception, after break_off(), or
  /// when a sum was left unfinished. mpirun ends the other ranks then.
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  /// Number of this process's rank, from 0, and of all ranks.
  int rank() const;
  int ranks() const;
  /// For a process that ends early: the destructor then doesn't wait for other
  /// ranks.
  void break_off();

 private:
  bool owns_ = false;
};

/// Ranks whose replicas sum together.
struct MpiMembers {
  int members = 1;
  int member = 1;  ///< which one this is, from 1
  /// Ranks of one colour are a group: the number of the block.
  int colour = 0;
  std::string name = {};  ///< of the group, for errors: "block 2"
};

/// The replicas of a block as ranks of MPI, each a process of its own with one
/// group. Made by all ranks of MPI_COMM_WORLD at once, which is split by
/// colour: waits for them all, without a deadline.
///
/// Sums are MPI's: in whatever order its algorithm adds, so that they equal
/// those in the order of the replicas but for rounding. All replicas get the
/// same bits: MPI does not promise it, but the algorithms of MPICH and Open MPI
/// either add an element up in one rank, or exchange a + b for b + a. float16
/// and bfloat16, which MPI doesn't know, travel and are added as float32. What
/// lies on a GPU goes through the host.
///
/// Before the elements of each sum goes the least and the greatest hash of its
/// layout (16 bytes): where they differ, all replicas throw LinkError. For a
/// layout that a replica has summed before, its elements set off at once; for
/// one that is new, in is_ready() or finish_sum(), when the hashes are there.
///
/// Nothing moves but while somebody tests: is_ready() does, and finish_sum(),
/// which does not use MPI_Wait(): that keeps a core busy, also for as long as
/// another replica computes. It tests for a short while and then sleeps between
/// the tests, at first for 5 us, then longer and longer, up to 100 us. The
/// hashes also tell when all replicas have begun the sum. From then on bytes
/// move at every test, so it yields the core but does not sleep for the time
/// that the elements may take.
///
/// Throws LinkError after `deadline` in finish_sum(). What MPI still reads and
/// writes then is kept until the process ends.
std::unique_ptr<Group> mpi_group(std::shared_ptr<MpiSession> session,
                                 MpiMembers who, Deadline deadline);

}  // namespace sluice
