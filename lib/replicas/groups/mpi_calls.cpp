#include "lib/replicas/groups/mpi_calls.h"

#ifdef SLUICE_MPI

#include <algorithm>
#include <array>
#include <cstddef>

#include "lib/base/error.h"

namespace sluice::mpi {

std::mutex& mpi_mutex() {
  static std::mutex mutex;
  return mutex;
}

std::atomic<bool>& is_broken() {
  static std::atomic<bool> broken = false;
  return broken;
}

void check(int code, const std::string& name, const char* call) {
  if (code == MPI_SUCCESS) return;
  is_broken() = true;
  std::array<char, MPI_MAX_ERROR_STRING> text = {};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw LinkError("{}: {}: {}", name, call,
                  std::string(text.data(), static_cast<std::size_t>(length)));
}

std::string library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text = {};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string all(text.data(), static_cast<std::size_t>(length));
  std::string line = all.substr(0, all.find('\n'));
  line.erase(std::unique(line.begin(), line.end(),
                         [](char a, char b) { return a == ' ' && b == ' '; }),
             line.end());
  return line;
}

Communicator::Communicator(const MpiMembers& who) {
  const std::lock_guard lock(mpi_mutex());
  check(MPI_Comm_split(MPI_COMM_WORLD, who.colour, who.member, &handle_),
        who.name, "MPI_Comm_split");
  check(MPI_Comm_set_errhandler(handle_, MPI_ERRORS_RETURN), who.name,
        "MPI_Comm_set_errhandler");
}

Communicator::~Communicator() {
  const std::lock_guard lock(mpi_mutex());
  if (!is_broken()) MPI_Comm_free(&handle_);
}

void Communicator::compare(const MpiMembers& who) const {
  const std::lock_guard lock(mpi_mutex());
  int ranks = 0;
  int rank = 0;
  check(MPI_Comm_size(handle_, &ranks), who.name, "MPI_Comm_size");
  check(MPI_Comm_rank(handle_, &rank), who.name, "MPI_Comm_rank");
  if (ranks == who.members && rank == who.member - 1) return;
  is_broken() = true;
  throw UserError(
      "{}: this is replica {} of {}, but {} of {} among the ranks that MPI "
      "knows of it: start as many ranks as there are blocks and replicas, by "
      "the mpirun of the MPI that Sluice was built with: {}",
      who.name, who.member, who.members, rank + 1, ranks, library());
}

}  // namespace sluice::mpi

#endif
