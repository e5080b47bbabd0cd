#pragma once

// Sums of tensors by MPI, for the files that are compiled with it alone
// (mpi_calls.h).
#ifdef SLUICE_MPI

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include <ATen/core/Tensor.h>

#include "lib/replicas/flat_tensors.h"
#include "lib/replicas/groups/mpi_calls.h"
#include "lib/tensors/tensors.h"

namespace sluice::mpi {

/// Sums that MPI makes one after the other: MPICH 5.0 sometimes never ended
/// some of 150 at once. Neither they nor what they read and write may go before
/// they are over.
class Sums {
 public:
  Sums(MPI_Comm communicator, const std::string& name)
      : communicator_(communicator), name_(name) {}

  /// Adds a buffer whose elements become, in place, the sums of all ranks (or
  /// what else `op` is).
  void add(void* elements, std::int64_t count, MPI_Datatype type, MPI_Op op) {
    calls_.push_back({elements, static_cast<int>(count), type, op});
  }

  /// Starts the calls, once, when all are added.
  void start();

  /// Moves the requests on. Returns whether all are over.
  bool test();

  bool are_over() const {
    return calls_.empty() && request_ == MPI_REQUEST_NULL;
  }

 private:
  struct Call {
    void* elements;
    int count;
    MPI_Datatype type;
    MPI_Op op;
  };

  void start_next();

  const MPI_Comm communicator_;
  const std::string name_;
  std::deque<Call> calls_;  // still to be started
  MPI_Request request_ = MPI_REQUEST_NULL;
};

/// The elements of a list of tensors, one buffer for each type that MPI adds.
class Buffers {
 public:
  /// Buffers of that layout, which take() fills. Throws UserError for a type
  /// that MPI can't add.
  explicit Buffers(const FlatTensors& like);

  void take(const FlatTensors& from);
  void give(const FlatTensors& to) const;

  void start(Sums& sums);

  std::int64_t bytes() const;

 private:
  /// Calls copy(range of a buffer, piece) for each piece of the flat tensors.
  template <class Copy>
  void for_each(const FlatTensors& flat, Copy copy) const;

  std::map<at::ScalarType, at::Tensor> buffers_;
};

/// Whether all ranks have the same layout.
class LayoutCheck {
 public:
  explicit LayoutCheck(std::int64_t layout) : least_({layout, -layout}) {}

  void start(Sums& sums);
  /// Whether all ranks gave the same number; known when the exchange is over,
  /// and equal on all ranks.
  bool is_same() const { return least_[0] == -least_[1]; }

 private:
  std::array<std::int64_t, 2> least_;  // of the layouts, and of their negatives
};

/// A sum, from its start to its end.
class Exchange {
 public:
  Exchange(FlatTensors mine, Buffers buffers, MPI_Comm communicator,
           const std::string& name);

  void start_hashes() { layout_.start(hashes_); }
  void start_elements();

  /// Whether all ranks have begun this sum.
  bool have_all_begun() { return hashes_.are_over() || hashes_.test(); }
  bool is_same_layout() const { return layout_.is_same(); }
  /// Lets it move on; whether its end, or its failure, is there.
  bool advance();

  /// The sums, when it has ended.
  Tensors sums() const;

  const FlatTensors& mine() const { return mine_; }
  void drop_inputs() { mine_ = FlatTensors({}); }
  Buffers& buffers() { return buffers_; }

 private:
  FlatTensors mine_;
  Buffers buffers_;
  LayoutCheck layout_;
  Sums hashes_;
  Sums elements_;
  bool is_under_way_ = false;
};

/// Keeps what MPI still reads and writes: to the end of the process, in which
/// MPI has no end any more.
void keep_for_ever(std::unique_ptr<Exchange> exchange);

}  // namespace sluice::mpi

#endif
