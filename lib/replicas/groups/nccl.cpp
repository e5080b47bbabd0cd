#include "lib/replicas/groups/nccl.h"

#include <cstdint>
#include <cstring>
#include <exception>
#include <map>
#include <optional>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/GradMode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "lib/base/error.h"
#include "lib/kernels/cuda_ipc.h"
#include "lib/replicas/flat_tensors.h"
#include "lib/tensors/pack.h"
#include "lib/tensors/streams.h"

namespace sluice {
namespace {

int nccl_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return Nccl::kFloat32;
    case at::kDouble:
      return Nccl::kFloat64;
    case at::kHalf:
      return Nccl::kFloat16;
    case at::kBFloat16:
      return Nccl::kBfloat16;
    case at::kByte:
      return Nccl::kUint8;
    case at::kChar:
      return Nccl::kInt8;
    case at::kInt:
      return Nccl::kInt32;
    case at::kLong:
      return Nccl::kInt64;
    default:
      throw UserError("replicas.group = 'nccl' can't sum tensors of type {}",
                      c10::toString(type));
  }
}

/// A communicator of NCCL. All calls are made on its device.
class NcclRanks {
 public:
  NcclRanks(const Nccl& nccl, const Nccl::UniqueId& id, int ranks,
            const NcclMember& who)
      : nccl_(nccl), name_(who.name), device_(who.device) {
    const c10::DeviceGuard on(device_);
    check(nccl_.comm_init_rank(&comm_, ranks, id, who.member - 1),
          "ncclCommInitRank");
  }
  ~NcclRanks() {
    if (comm_ == nullptr) return;
    const c10::DeviceGuard on(device_);
    nccl_.comm_destroy(comm_);
  }
  NcclRanks(const NcclRanks&) = delete;
  NcclRanks& operator=(const NcclRanks&) = delete;

  /// Ends what is under way on the GPU, and all use of it.
  void abort() {
    if (comm_ == nullptr) return;
    const c10::DeviceGuard on(device_);
    nccl_.comm_abort(std::exchange(comm_, nullptr));
  }

  /// Throws LinkError when NCCL has lost a rank since.
  void check_works() {
    if (comm_ == nullptr)
      throw LinkError("{}: NCCL was given up after an error", name_);
    Nccl::Result error = Nccl::kSuccess;
    check(nccl_.comm_async_error(comm_, &error), "ncclCommGetAsyncError");
    check(error, "NCCL");
  }

  /// Sums a buffer over all ranks, in place.
  void sum(const at::Tensor& buffer, const c10::Stream& stream) {
    const c10::DeviceGuard on(device_);
    check(nccl_.all_reduce(buffer.data_ptr(), buffer.data_ptr(),
                           static_cast<std::size_t>(buffer.numel()),
                           nccl_type(buffer.scalar_type()), Nccl::kSum, comm_,
                           stream.native_handle()),
          "ncclAllReduce");
  }

 private:
  void check(Nccl::Result result, const char* call) {
    if (result == Nccl::kSuccess || result == Nccl::kInProgress) return;
    abort();
    throw LinkError("{}: {}: {}", name_, call, nccl_.error_string(result));
  }

  const Nccl nccl_;
  const std::string name_;
  const c10::Device device_;
  Nccl::Comm comm_ = nullptr;
};

/// The elements of a list of tensors, one buffer for each type.
class NcclBuffers {
 public:
  NcclBuffers(const FlatTensors& from, const c10::Stream& stream) {
    const c10::StreamGuard on(stream);
    std::map<at::ScalarType, Tensors> pieces;
    for (const at::Tensor& piece : from.range(0, from.elements())) {
      nccl_type(piece.scalar_type());  // there is one
      piece.record_stream(stream);
      pieces[piece.scalar_type()].push_back(piece);
    }
    for (const auto& [type, list] : pieces)
      buffers_.emplace(type, at::cat(list));
  }

  void sum(NcclRanks& ranks, const c10::Stream& stream) const {
    for (const auto& [type, buffer] : buffers_) ranks.sum(buffer, stream);
  }

  /// Copies the buffers into `to`, in the current stream.
  void give(const FlatTensors& to, const c10::Stream& current) const {
    std::map<at::ScalarType, std::int64_t> next;
    for (const at::Tensor& piece : to.range(0, to.elements())) {
      std::int64_t& begin = next[piece.scalar_type()];
      piece.copy_(buffers_.at(piece.scalar_type())
                      .slice(0, begin, begin + piece.numel()));
      begin += piece.numel();
    }
    for (const auto& [type, buffer] : buffers_) buffer.record_stream(current);
  }

 private:
  std::map<at::ScalarType, at::Tensor> buffers_;
};

/// What replicas tell each other before the first sum.
struct NcclGreeting {
  DeviceId gpu = {};
  Nccl::UniqueId unique_id = {};  // of replica 1
};

at::Tensor bytes_of_greeting(const NcclGreeting& greeting) {
  at::Tensor bytes =
      at::empty({static_cast<std::int64_t>(sizeof greeting)}, at::kByte);
  std::memcpy(bytes.data_ptr(), &greeting, sizeof greeting);
  return bytes;
}

class NcclGroup final : public Group {
 public:
  NcclGroup(const Nccl& nccl, std::vector<Link> links, NcclMember who)
      : links_(std::move(links)),
        who_(std::move(who)),
        stream_(c10::impl::VirtualGuardImpl(who_.device.type())
                    .getStreamFromGlobalPool(who_.device,
                                             /*isHighPriority=*/true)),
        ranks_(nccl, greet(nccl), members(), who_) {}
  ~NcclGroup() override {
    // The end of a communicator waits for sums that others may never make.
    if (mine_ || std::uncaught_exceptions() > 0) ranks_.abort();
    for (Link& link : links_)
      if (link.sender) link.sender->close();
  }
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  int members() const override { return static_cast<int>(links_.size()); }
  int member() const override { return who_.member; }

  void start_sum(Tensors mine) override {
    const at::NoGradGuard no_grad;
    SLUICE_CHECK(!mine_, "{}: a sum begins before the last one has ended",
                 who_.name);
    ranks_.check_works();
    for (const at::Tensor& tensor : mine)
      SLUICE_CHECK(!tensor.defined() || tensor.device() == who_.device,
                   "{}: NCCL sums what lies on {}", who_.name,
                   who_.device.str());
    mine_.emplace(mine);
    order(computing_on(who_.device), stream_);
    buffers_.emplace(*mine_, stream_);
    for (int other = 1; other <= members(); ++other)
      if (other != member())
        send(other, {.kind = MessageKind::exchange,
                     .batch = sums_,
                     .turn = mine_->layout()});
  }

  Tensors finish_sum() override {
    const at::NoGradGuard no_grad;
    SLUICE_CHECK(mine_, "{}: no sum has begun", who_.name);
    for (int other = 1; other <= members(); ++other)
      if (other != member()) check_begun(other);
    ranks_.check_works();
    buffers_->sum(ranks_, stream_);
    const c10::Stream current = computing_on(who_.device);
    order(stream_, current);
    Tensors sums;
    for (const at::Tensor& tensor : mine_->tensors())
      sums.push_back(tensor.defined() ? at::empty_like(tensor) : at::Tensor());
    buffers_->give(FlatTensors(sums), current);
    buffers_.reset();
    mine_.reset();
    ++sums_;
    return sums;
  }

  bool is_ready() const override {
    for (const Link& link : links_)
      if (link.receiver && !link.receiver->ready()) return false;
    return true;
  }

 private:
  /// Tells the others this GPU, and returns the id that replica 1 has made.
  Nccl::UniqueId greet(const Nccl& nccl) {
    NcclGreeting mine{.gpu = who_.id};
    if (member() == 1) {
      const c10::DeviceGuard on(who_.device);
      const Nccl::Result result = nccl.get_unique_id(&mine.unique_id);
      if (result != Nccl::kSuccess)
        throw LinkError("{}: ncclGetUniqueId: {}", who_.name,
                        nccl.error_string(result));
    }
    std::map<DeviceId, int> owners = {{who_.id, member()}};
    for (int other = 1; other <= members(); ++other) {
      if (other == member()) continue;
      Message message{.kind = MessageKind::exchange, .batch = -1};
      pack({bytes_of_greeting(mine)}, "nccl", message);
      send(other, std::move(message));
    }
    Nccl::UniqueId id = mine.unique_id;
    for (int other = 1; other <= members(); ++other) {
      if (other == member()) continue;
      const NcclGreeting theirs = greeting_of(other);
      if (other == 1) id = theirs.unique_id;
      const auto [owner, is_new] = owners.emplace(theirs.gpu, other);
      if (!is_new)
        throw UserError(
            "{}: replicas {} and {} are on one GPU, and NCCL wants one for "
            "each: set another device, or replicas.group = 'links'",
            who_.name, owner->second, other);
    }
    return id;
  }

  NcclGreeting greeting_of(int other) {
    const Message message = receive(other);
    const Tensors sent = unpack(message, "nccl");
    NcclGreeting greeting;
    if (message.batch != -1 || sent.size() != 1 ||
        sent.front().nbytes() != sizeof greeting)
      throw LinkError("{}: replica {} greets otherwise", who_.name, other);
    const at::Tensor bytes = sent.front().cpu();
    std::memcpy(&greeting, bytes.data_ptr(), sizeof greeting);
    return greeting;
  }

  /// Waits until another replica says which sum it has begun. Throws LinkError
  /// unless it is this one.
  void check_begun(int other) {
    const Message message = receive(other);
    if (message.batch == sums_ && message.turn == mine_->layout()) return;
    throw LinkError("{}: replicas {} and {} lay out what they sum differently",
                    who_.name, member(), other);
  }

  Link& link_to(int other) {
    return links_.at(static_cast<std::size_t>(other) - 1);
  }
  void send(int other, Message message) {
    link_to(other).sender->send(std::move(message));
  }
  Message receive(int other) {
    std::optional<Message> message = link_to(other).receiver->receive();
    if (!message)
      throw PeerGoneError(
          "{}: replica {} has ended, and replica {} waits for it", who_.name,
          other, member());
    return std::move(*message);
  }

  std::vector<Link> links_;
  const NcclMember who_;
  const c10::Stream stream_;
  NcclRanks ranks_;
  std::optional<FlatTensors> mine_;  // that is being summed
  std::optional<NcclBuffers> buffers_;
  std::int64_t sums_ = 0;  // that are over
};

}  // namespace

std::unique_ptr<Group> nccl_group(const Nccl& nccl, std::vector<Link> links,
                                  NcclMember who) {
  return std::make_unique<NcclGroup>(nccl, std::move(links), std::move(who));
}

std::unique_ptr<Group> nccl_group(std::vector<Link> links, int member,
                                  const c10::Device& device, std::string name) {
  check_has_nccl();
  const c10::DeviceGuard on(device);
  return nccl_group(load_nccl(), std::move(links),
                    {.member = member,
                     .device = device,
                     .id = cuda_ipc()->id_of(device.index()),
                     .name = std::move(name)});
}

void check_has_nccl() {
  if (cuda_ipc() == nullptr)
    throw UserError(
        "replicas.group = 'nccl': this build has no CUDA: build with nvcc, or "
        "set group = 'links'");
  load_nccl();
}

}  // namespace sluice
