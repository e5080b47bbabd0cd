#include "lib/replicas/groups/mpi.h"

#include "lib/base/error.h"

#ifdef SLUICE_MPI

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

#include "lib/replicas/flat_tensors.h"
#include "lib/replicas/groups/mpi_calls.h"
#include "lib/replicas/groups/mpi_exchange.h"

namespace sluice {
namespace {

using mpi::Buffers;
using mpi::check;
using mpi::Communicator;
using mpi::Exchange;
using mpi::is_broken;
using mpi::library;
using mpi::mpi_mutex;

using Clock = std::chrono::steady_clock;

/// Pauses between two tests of an MPI request.
class Pause {
 public:
  using Time = std::chrono::microseconds;
  static constexpr Time kFirst = Time(5);
  static constexpr Time kLongest = Time(100);

  /// `eager`: for how long a pause only yields before pauses sleep.
  explicit Pause(Time eager) : asleep_from_(Clock::now() + eager) {}

  void operator()() {
    if (Clock::now() < asleep_from_) return std::this_thread::yield();
    std::this_thread::sleep_for(time_);
    time_ = std::min(time_ + time_ / 2, kLongest);
  }

 private:
  Clock::time_point asleep_from_;
  Time time_ = kFirst;
};

class MpiGroup final : public Group {
 public:
  MpiGroup(std::shared_ptr<MpiSession> session, MpiMembers who,
           Deadline deadline)
      : session_(std::move(session)),
        who_(std::move(who)),
        deadline_(deadline),
        communicator_(who_) {
    communicator_.compare(who_);
  }
  ~MpiGroup() override {
    if (exchange_) mpi::keep_for_ever(std::move(exchange_));
  }
  MpiGroup(const MpiGroup&) = delete;
  MpiGroup& operator=(const MpiGroup&) = delete;

  int members() const override { return who_.members; }
  int member() const override { return who_.member; }

  void start_sum(Tensors mine) override {
    const at::NoGradGuard no_grad;
    SLUICE_CHECK(!exchange_, "{}: a sum begins before the last one has ended",
                 who_.name);
    FlatTensors flat(mine);
    Buffers buffers = buffers_for(flat);
    exchange_ = std::make_unique<Exchange>(std::move(flat), std::move(buffers),
                                           communicator_.handle(), who_.name);
    exchange_->start_hashes();
    if (known_.contains(exchange_->mine().layout()))
      exchange_->start_elements();
  }

  Tensors finish_sum() override {
    const at::NoGradGuard no_grad;
    SLUICE_CHECK(exchange_, "{}: no sum has begun", who_.name);
    const Clock::time_point end = Clock::now() + deadline_;
    wait([&] { return exchange_->have_all_begun(); }, kLook, end);
    if (!exchange_->is_same_layout()) throw_other_layout();
    wait([&] { return exchange_->advance(); },
         transfer_time(exchange_->buffers().bytes()), end);
    Tensors sums = exchange_->sums();
    put_away();
    return sums;
  }

  bool is_ready() const override { return exchange_ && exchange_->advance(); }

 private:
  static constexpr Pause::Time kLook = Pause::Time(50);

  /// Time for which it is worth to stay awake: as if it were 250 MB a second.
  static Pause::Time transfer_time(std::int64_t bytes) {
    return kLook + Pause::Time(bytes / 250);
  }

  /// Buffers of the last sum where they fit, because new memory costs as much
  /// as a copy.
  Buffers buffers_for(const FlatTensors& flat) {
    if (buffers_ && layout_ == flat.layout())
      return *std::exchange(buffers_, std::nullopt);
    return Buffers(flat);
  }

  void put_away() {
    layout_ = exchange_->mine().layout();
    known_.insert(layout_);
    buffers_ = std::move(exchange_->buffers());
    exchange_.reset();
  }

  template <class IsOver>
  void wait(IsOver is_over, Pause::Time eager, Clock::time_point end) {
    Pause pause(eager);
    while (!is_over()) {
      if (Clock::now() > end) throw_late();
      pause();
    }
  }

  [[noreturn]] void throw_late() {
    mpi::keep_for_ever(std::move(exchange_));
    throw LinkError("{}: replica {} has waited {} s for the others", who_.name,
                    who_.member, static_cast<double>(deadline_.count()) / 1000);
  }

  [[noreturn]] void throw_other_layout() {
    const std::size_t tensors = exchange_->mine().tensors().size();
    const std::int64_t bytes = bytes_of(exchange_->mine().tensors());
    mpi::keep_for_ever(std::move(exchange_));
    throw LinkError(
        "{}: the replicas lay out what they sum differently (replica {} has {} "
        "tensors of {} bytes)",
        who_.name, who_.member, tensors, bytes);
  }

  const std::shared_ptr<MpiSession> session_;  // ends after the communicator
  const MpiMembers who_;
  const Deadline deadline_;
  const Communicator communicator_;
  std::unique_ptr<Exchange> exchange_;  // that is under way
  std::set<std::int64_t> known_;        // layouts that were summed
  std::optional<Buffers> buffers_;      // of the last sum, whose layout is:
  std::int64_t layout_ = 0;
};

/// Initialises MPI; false where that was done before.
bool initialise() {
  int is_done = 0;
  MPI_Initialized(&is_done);
  int is_over = 0;
  MPI_Finalized(&is_over);
  SLUICE_CHECK(!is_over, "MPI has ended in this process, and has one life");
  int level = MPI_THREAD_SINGLE;
  if (is_done)
    check(MPI_Query_thread(&level), "MPI", "MPI_Query_thread");
  else
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level),
          "MPI", "MPI_Init_thread");
  if (level < MPI_THREAD_SERIALIZED)
    throw UserError(
        "replicas.group = 'mpi': {} can only be called by the first thread, "
        "and Sluice calls it by others: use an MPI that was built for threads",
        library());
  return !is_done;
}

}  // namespace

std::string_view mpi_name() {
#ifdef OPEN_MPI
  return "Open MPI";
#else
  return "MPICH";
#endif
}

bool has_mpi() {
  return true;
}

MpiSession::MpiSession() {
  const std::lock_guard lock(mpi_mutex());
  owns_ = initialise();
  // The world's handler alone: other users of MPI have their communicators.
  check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI",
        "MPI_Comm_set_errhandler");
}

MpiSession::~MpiSession() {
  const std::lock_guard lock(mpi_mutex());
  if (owns_ && !is_broken() && std::uncaught_exceptions() == 0) MPI_Finalize();
}

int MpiSession::rank() const {
  const std::lock_guard lock(mpi_mutex());
  int rank = 0;
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI", "MPI_Comm_rank");
  return rank;
}

int MpiSession::ranks() const {
  const std::lock_guard lock(mpi_mutex());
  int ranks = 0;
  check(MPI_Comm_size(MPI_COMM_WORLD, &ranks), "MPI", "MPI_Comm_size");
  return ranks;
}

void MpiSession::break_off() {
  is_broken() = true;
}

std::unique_ptr<Group> mpi_group(std::shared_ptr<MpiSession> session,
                                 MpiMembers who, Deadline deadline) {
  SLUICE_CHECK(session, "{}: a group without MPI", who.name);
  return std::make_unique<MpiGroup>(std::move(session), std::move(who),
                                    deadline);
}

}  // namespace sluice

#else

namespace sluice {
namespace {

[[noreturn]] void throw_no_mpi() {
  throw UserError(
      "replicas.group = 'mpi': this build has no MPI: install "
      "libopenmpi-dev, or `pip install mpich` into .venv, and build anew");
}

}  // namespace

std::string_view mpi_name() {
  return "";
}

bool has_mpi() {
  return false;
}

MpiSession::MpiSession() {
  throw_no_mpi();
}
MpiSession::~MpiSession() = default;
int MpiSession::rank() const {
  throw_no_mpi();
}
int MpiSession::ranks() const {
  throw_no_mpi();
}
void MpiSession::break_off() {}

std::unique_ptr<Group> mpi_group(std::shared_ptr<MpiSession> /*session*/,
                                 MpiMembers /*who*/, Deadline /*deadline*/) {
  throw_no_mpi();
}

}  // namespace sluice

#endif
