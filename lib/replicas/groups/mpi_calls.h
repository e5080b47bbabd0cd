#pragma once

// Calls to MPI, for the files that are compiled with it (SLUICE_MPI) alone:
// sluice_use_mpi() in CMakeLists.txt names them.
#ifdef SLUICE_MPI

#include <atomic>
#include <mutex>
#include <string>

// Leaves out the C++ interface that MPI 3 has removed, and its library.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include "lib/replicas/groups/mpi.h"

namespace sluice::mpi {

/// All calls to MPI are made under it: MPI_THREAD_SERIALIZED.
std::mutex& mpi_mutex();

/// Other ranks may wait for what this one will not send any more.
std::atomic<bool>& is_broken();

/// Throws LinkError, with `name`, when a call to MPI has failed;
/// then is_broken().
void check(int code, const std::string& name, const char* call);

/// Name and version of the MPI, in a line.
std::string library();

/// The ranks of a colour.
class Communicator {
 public:
  /// Waits for all ranks of MPI_COMM_WORLD.
  explicit Communicator(const MpiMembers& who);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  MPI_Comm handle() const { return handle_; }
  /// Compares the ranks' lists. Throws UserError when other ranks have other
  /// ones, or another order.
  void compare(const MpiMembers& who) const;

 private:
  MPI_Comm handle_ = MPI_COMM_NULL;
};

}  // namespace sluice::mpi

#endif
