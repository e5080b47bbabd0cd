#include "lib/replicas/groups/mpi.h"

#include "lib/base/error.h"

#ifdef SLUICE_MPI

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "lib/replicas/flat.h"

// Without the C++ interface that MPI 3 has removed, and its library.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

/// All calls to MPI are made under it: MPI_THREAD_SERIALIZED.
std::mutex& mpi_mutex() {
  static std::mutex mutex;
  return mutex;
}

/// Other ranks may wait for what this one will not send any more.
std::atomic<bool>& is_broken() {
  static std::atomic<bool> broken = false;
  return broken;
}

/// Throws LinkError when a call to MPI has failed.
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

/// The type as which MPI adds up tensors of that type.
at::ScalarType summed_as(at::ScalarType type) {
  return type == at::kHalf || type == at::kBFloat16 ? at::kFloat : type;
}

MPI_Datatype mpi_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return MPI_FLOAT;
    case at::kDouble:
      return MPI_DOUBLE;
    case at::kByte:
      return MPI_UINT8_T;
    case at::kChar:
      return MPI_INT8_T;
    case at::kShort:
      return MPI_INT16_T;
    case at::kInt:
      return MPI_INT32_T;
    case at::kLong:
      return MPI_INT64_T;
    default:
      throw UserError("replicas.group = 'mpi' can't sum tensors of type {}",
                      c10::toString(type));
  }
}

/// Elements of one call: MPI counts them in an int.
constexpr std::int64_t kMostElements = std::int64_t{1} << 22U;

/// Sums that MPI makes one after the other: MPICH 5.0 sometimes never ended
/// some of 150 at once. Neither they nor what they read and write may go before
/// they are over.
class Sums {
 public:
  Sums(MPI_Comm communicator, const std::string& name)
      : communicator_(communicator), name_(name) {}

  /// In place: every rank's elements become the sums (or what else op is).
  void add(void* elements, std::int64_t count, MPI_Datatype type, MPI_Op op) {
    calls_.push_back({elements, static_cast<int>(count), type, op});
  }

  /// Once, when all are added.
  void start() {
    const std::lock_guard lock(mpi_mutex());
    start_next();
  }

  /// Lets them move on; whether all are over.
  bool test() {
    const std::lock_guard lock(mpi_mutex());
    int is_over = 0;
    check(MPI_Test(&request_, &is_over, MPI_STATUS_IGNORE), name_, "MPI_Test");
    if (is_over && !are_over()) start_next();
    return are_over();
  }

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

  void start_next() {
    if (calls_.empty()) return;
    const Call call = calls_.front();
    calls_.pop_front();
    // What MPI_IN_PLACE is, is the affair of its header.
    void* const in_place = MPI_IN_PLACE;  // NOLINT
    check(MPI_Iallreduce(in_place, call.elements, call.count, call.type,
                         call.op, communicator_, &request_),
          name_, "MPI_Iallreduce");
  }

  const MPI_Comm communicator_;
  const std::string name_;
  std::deque<Call> calls_;  // still to be started
  MPI_Request request_ = MPI_REQUEST_NULL;
};

/// The elements of a list of tensors, one buffer for each type that MPI adds.
class Buffers {
 public:
  /// Of that layout; filled by take().
  explicit Buffers(const Flat& like) {
    std::map<at::ScalarType, std::int64_t> elements;
    for (const at::Tensor& piece : like.range(0, like.elements())) {
      const at::ScalarType type = summed_as(piece.scalar_type());
      mpi_type(type);  // there is one
      elements[type] += piece.numel();
    }
    for (const auto& [type, count] : elements)
      buffers_.emplace(type, at::empty({count}, type));
  }

  void take(const Flat& from) {
    for_each(from, [](at::Tensor here, const at::Tensor& piece) {
      here.copy_(piece);
    });
  }
  void give(const Flat& to) const {
    for_each(to, [](const at::Tensor& here, at::Tensor piece) {
      piece.copy_(here);
    });
  }

  void start(Sums& sums) {
    for (auto& [type, buffer] : buffers_)
      for (std::int64_t i = 0; i < buffer.numel(); i += kMostElements) {
        const at::Tensor part =
            buffer.slice(0, i, std::min(i + kMostElements, buffer.numel()));
        sums.add(part.data_ptr(), part.numel(), mpi_type(type), MPI_SUM);
      }
    sums.start();
  }

  std::int64_t bytes() const {
    std::int64_t sum = 0;
    for (const auto& [type, buffer] : buffers_)
      sum += static_cast<std::int64_t>(buffer.nbytes());
    return sum;
  }

 private:
  /// Calls copy(range of a buffer, piece) for each piece of the flat tensors.
  template <class Copy>
  void for_each(const Flat& flat, Copy copy) const {
    std::map<at::ScalarType, std::int64_t> next;
    for (const at::Tensor& piece : flat.range(0, flat.elements())) {
      const at::ScalarType type = summed_as(piece.scalar_type());
      const std::int64_t begin = next[type];
      next[type] = begin + piece.numel();
      copy(buffers_.at(type).slice(0, begin, next[type]), piece);
    }
  }

  std::map<at::ScalarType, at::Tensor> buffers_;
};

/// Whether all ranks have the same layout.
class LayoutCheck {
 public:
  explicit LayoutCheck(std::int64_t layout) : least_({layout, -layout}) {}

  void start(Sums& sums) {
    sums.add(least_.data(), 2, MPI_INT64_T, MPI_MIN);
    sums.start();
  }
  /// When it is over. The same on all ranks.
  bool is_same() const { return least_[0] == -least_[1]; }

 private:
  std::array<std::int64_t, 2> least_;  // of the layouts, and of their negatives
};

/// One sum, from its start to its end.
class Exchange {
 public:
  Exchange(Flat mine, Buffers buffers, MPI_Comm communicator,
           const std::string& name)
      : mine_(std::move(mine)),
        buffers_(std::move(buffers)),
        layout_(mine_.layout()),
        hashes_(communicator, name),
        elements_(communicator, name) {
    buffers_.take(mine_);
  }

  void start_hashes() { layout_.start(hashes_); }
  void start_elements() {
    buffers_.start(elements_);
    is_under_way_ = true;
  }

  /// Whether all ranks have begun this sum.
  bool have_all_begun() { return hashes_.are_over() || hashes_.test(); }
  bool is_same_layout() const { return layout_.is_same(); }
  /// Lets it move on; whether its end, or its failure, is there.
  bool advance() {
    if (!have_all_begun()) {
      if (is_under_way_) elements_.test();
      return false;
    }
    if (!is_same_layout()) return true;
    if (!is_under_way_) start_elements();
    return elements_.test();
  }

  /// The sums, when it has ended.
  Tensors sums() const {
    Tensors sums;
    for (const at::Tensor& tensor : mine_.tensors())
      sums.push_back(tensor.defined() ? at::empty_like(tensor) : at::Tensor());
    buffers_.give(Flat(sums));
    return sums;
  }

  const Flat& mine() const { return mine_; }
  void drop_inputs() { mine_ = Flat({}); }
  Buffers& buffers() { return buffers_; }

 private:
  Flat mine_;
  Buffers buffers_;
  LayoutCheck layout_;
  Sums hashes_;
  Sums elements_;
  bool is_under_way_ = false;
};

/// Keeps what MPI still reads and writes: to the end of the process, in which
/// MPI has no end any more.
void keep_for_ever(std::unique_ptr<Exchange> exchange) {
  is_broken() = true;
  exchange->drop_inputs();
  static_cast<void>(exchange.release());
}

/// Between two tests.
class Pause {
 public:
  using Time = std::chrono::microseconds;
  static constexpr Time kFirst = Time(5);
  static constexpr Time kLongest = Time(100);

  /// Only yields for so long.
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

/// The ranks of a colour.
class Communicator {
 public:
  explicit Communicator(const MpiMembers& who) {
    const std::lock_guard lock(mpi_mutex());
    check(MPI_Comm_split(MPI_COMM_WORLD, who.colour, who.member, &handle_),
          who.name, "MPI_Comm_split");
    check(MPI_Comm_set_errhandler(handle_, MPI_ERRORS_RETURN), who.name,
          "MPI_Comm_set_errhandler");
  }
  ~Communicator() {
    const std::lock_guard lock(mpi_mutex());
    if (!is_broken()) MPI_Comm_free(&handle_);
  }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  MPI_Comm handle() const { return handle_; }
  /// Throws UserError when other ranks are in it, or in another order.
  void compare(const MpiMembers& who) const {
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

 private:
  MPI_Comm handle_ = MPI_COMM_NULL;
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
    if (exchange_) keep_for_ever(std::move(exchange_));
  }
  MpiGroup(const MpiGroup&) = delete;
  MpiGroup& operator=(const MpiGroup&) = delete;

  int members() const override { return who_.members; }
  int member() const override { return who_.member; }

  void start_sum(Tensors mine) override {
    const at::NoGradGuard no_grad;
    SLUICE_CHECK(!exchange_, "{}: a sum begins before the last one has ended",
                 who_.name);
    Flat flat(mine);
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

  /// For so long it is worth to stay awake: as if it were 250 MB a second.
  static Pause::Time transfer_time(std::int64_t bytes) {
    return kLook + Pause::Time(bytes / 250);
  }

  /// Those of the last sum, where they fit: new memory costs as much as
  /// copying.
  Buffers buffers_for(const Flat& flat) {
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
    keep_for_ever(std::move(exchange_));
    throw LinkError("{}: replica {} has waited {} s for the others", who_.name,
                    who_.member, static_cast<double>(deadline_.count()) / 1000);
  }

  [[noreturn]] void throw_other_layout() {
    const std::size_t tensors = exchange_->mine().tensors().size();
    const std::int64_t bytes = bytes_of(exchange_->mine().tensors());
    keep_for_ever(std::move(exchange_));
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

/// Initialises MPI; false: that was done.
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
  // Of the world alone: other users of MPI have communicators of their own.
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
