#include "tests/simcuda/runtime/shared_block.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <new>
#include <random>
#include <string>
#include <thread>

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/simcuda/machine.h"

namespace sluice::simcuda {
namespace {

constexpr std::uint64_t kSharedMagic = 0x53494D4355444131;  // "SIMCUDA1"

std::uint64_t random_number() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

SharedUse shared_use(const Use& use) {
  SharedUse shared{
      .process = process_at(use.stream / kStreamsOfProcess),
      .stream = static_cast<std::uint32_t>(use.stream % kStreamsOfProcess),
      .time = use.time};
  const std::size_t length =
      std::min(use.operation.size(), shared.operation.size() - 1);
  std::memcpy(shared.operation.data(), use.operation.data(), length);
  return shared;
}

Use local_use(const SharedUse& shared) {
  if (shared.time == 0) return {};
  return {.stream = number_of_process(shared.process) * kStreamsOfProcess +
                    shared.stream,
          .time = shared.time,
          .operation = shared.operation.data()};
}

}  // namespace

void SharedLock::lock() {
  using Time = std::chrono::steady_clock;
  const Time::time_point until = Time::now() + std::chrono::seconds(5);
  while (taken_.exchange(1, std::memory_order_acquire) != 0 &&
         Time::now() < until)
    std::this_thread::yield();
}

void write_clock(const Clock& clock, SharedClock& to) {
  for (std::size_t p = 0; p < kProcesses; ++p) {
    SharedClock::Part& part = to.parts.at(p);
    part.process = process_at(p);
    std::copy_n(
        clock.begin() + static_cast<std::ptrdiff_t>(p * kStreamsOfProcess),
        kStreamsOfProcess, part.times.begin());
  }
}

Clock read_clock(const SharedClock& shared) {
  Clock clock = {};
  for (const SharedClock::Part& part : shared.parts) {
    if (part.process == 0) continue;
    const std::size_t first =
        number_of_process(part.process) * kStreamsOfProcess;
    for (std::size_t i = 0; i < kStreamsOfProcess; ++i)
      clock.at(first + i) = std::max(clock.at(first + i), part.times.at(i));
  }
  return clock;
}

SharedMapping::SharedMapping(int file, std::size_t bytes)
    : process_(::getpid()), file_(file), size_(kBytesOffset + bytes) {
  void* const block =
      ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  void* const hidden = ::mmap(nullptr, size_, PROT_NONE, MAP_SHARED, file_, 0);
  TORCH_CHECK(block != MAP_FAILED && hidden != MAP_FAILED,
              "simulated GPU: no addresses are left");
  block_ = static_cast<SharedBlock*>(block);
  hidden_ = static_cast<std::byte*>(hidden);
}

SharedMapping::~SharedMapping() {
  ::munmap(block_, size_);
  ::munmap(hidden_, size_);
  ::close(file_);
}

std::unique_ptr<SharedMapping> SharedMapping::make(SharedBlock::Kind kind,
                                                   int device,
                                                   std::size_t bytes) {
  const int file = ::memfd_create("simulated CUDA IPC", MFD_CLOEXEC);
  TORCH_CHECK(file >= 0 && ::ftruncate(file, static_cast<off_t>(kBytesOffset +
                                                                bytes)) == 0,
              "simulated GPU: memfd_create() failed");
  std::unique_ptr<SharedMapping> made(new SharedMapping(file, bytes));
  auto* const block = new (made->block_) SharedBlock;
  block->kind = kind;
  block->number = random_number();
  block->owner = ::getpid();
  block->device = device;
  block->bytes = bytes;
  return made;
}

std::unique_ptr<SharedMapping> SharedMapping::open(const SharedName& name,
                                                   SharedBlock::Kind kind) {
  if (name.magic != kSharedMagic || name.kind != kind) return nullptr;
  const std::string path =
      fmt::format("/proc/{}/fd/{}", name.process, name.file);
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  struct stat status = {};
  if (::fstat(file, &status) != 0 ||
      static_cast<std::size_t>(status.st_size) < kBytesOffset) {
    ::close(file);
    return nullptr;
  }
  std::unique_ptr<SharedMapping> opened(new SharedMapping(
      file, static_cast<std::size_t>(status.st_size) - kBytesOffset));
  const SharedBlock& block = opened->block();
  if (block.number != name.number || block.kind != kind) return nullptr;
  return opened;
}

SharedName SharedMapping::name() const {
  return {.magic = kSharedMagic,
          .kind = block_->kind,
          .process = ::getpid(),
          .file = file_,
          .number = block_->number};
}

bool SharedMapping::is_own() const {
  return block_->owner == ::getpid();
}

bool SharedMapping::is_mapped_here() const {
  return process_ == ::getpid();
}

std::byte* SharedMapping::bytes() const {
  return reinterpret_cast<std::byte*>(block_) + kBytesOffset;
}

std::byte* SharedMapping::hidden() const {
  return hidden_ + kBytesOffset;
}

UsesOfAll::UsesOfAll(Allocation& allocation) : allocation_(allocation) {
  if (allocation_.shared == nullptr) return;
  SharedBlock& block = *allocation_.shared;
  block.lock.lock();
  allocation_.written = local_use(block.written);
  allocation_.read.clear();
  for (std::size_t i = 0; i < block.reads; ++i) {
    const Use use = local_use(block.read.at(i));
    allocation_.read[use.stream] = use;
  }
}

UsesOfAll::~UsesOfAll() {
  if (allocation_.shared == nullptr) return;
  SharedBlock& block = *allocation_.shared;
  block.written = shared_use(allocation_.written);
  block.reads = 0;
  for (const auto& [stream, use] : allocation_.read)
    if (block.reads < block.read.size())
      block.read.at(block.reads++) = shared_use(use);
  block.lock.unlock();
}

bool is_alive(const SharedBlock& block) {
  return ::kill(block.owner, 0) == 0 || errno != ESRCH;
}

}  // namespace sluice::simcuda
