#include "tests/simcuda/runtime/launch.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include <c10/util/Exception.h>
#include <ucontext.h>

#include "tests/simcuda/report.h"

// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): CUDA's
thread_local sluice::simcuda::ThreadIndex threadIdx;
thread_local sluice::simcuda::ThreadIndex blockIdx;
thread_local sluice::simcuda::ThreadIndex blockDim;
thread_local sluice::simcuda::ThreadIndex gridDim;
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

namespace sluice::simcuda {
namespace {

constexpr std::size_t kStackBytes = std::size_t{32} << 10;
constexpr std::size_t kMarginBytes = 4096;
constexpr std::byte kFirstMargin{0x5A};
constexpr std::byte kSecondMargin{0x3C};

/// A thread of the block that runs, with a stack of its own.
struct Fiber {
  ucontext_t context = {};
  std::unique_ptr<std::byte[]> stack =
      std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
  bool is_done = false;
};

/// What runs now.
struct Running {
  ucontext_t back = {};  ///< to who lets threads run
  std::vector<Fiber> fibers = {};
  std::size_t fiber = 0;
  const std::function<void()>* thread = nullptr;
};

Running*& running() {
  thread_local Running* now = nullptr;
  return now;
}

/// Returns to `back`.
void enter_thread() {
  Running& now = *running();
  (*now.thread)();
  now.fibers[now.fiber].is_done = true;
}

// getcontext() returns twice.
[[gnu::noinline]] void prepare(Running& now, Fiber& fiber) {
  fiber.is_done = false;
  ::getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.get();
  fiber.context.uc_stack.ss_size = kStackBytes;
  fiber.context.uc_link = &now.back;
  ::makecontext(&fiber.context, enter_thread, 0);
}

/// Each up to its end or to the next barrier; how many are at their end.
std::size_t run_up_to_barrier(Running& now, ThreadOrder order) {
  const std::size_t count = now.fibers.size();
  std::size_t done = 0;
  for (std::size_t i = 0; i < count; ++i) {
    now.fiber = order == ThreadOrder::ascending ? i : count - 1 - i;
    Fiber& fiber = now.fibers[now.fiber];
    threadIdx.x = static_cast<unsigned>(now.fiber);
    if (!fiber.is_done) ::swapcontext(&now.back, &fiber.context);
    if (fiber.is_done) ++done;
  }
  return done;
}

void run_block(Running& now, ThreadOrder order) {
  for (Fiber& fiber : now.fibers) prepare(now, fiber);
  std::size_t done = 0;
  while (done == 0) done = run_up_to_barrier(now, order);
  // Fibers that wait there are left: their stacks hold nothing to destroy.
  if (done != now.fibers.size())
    report("a kernel has a barrier that not all threads of a block come to");
}

}  // namespace

void wait_for_block() {
  Running& now = *running();
  ::swapcontext(&now.fibers[now.fiber].context, &now.back);
}

void run_threads(const Grid& grid, ThreadOrder order,
                 const std::function<void()>& thread) {
  Running now;
  blockDim.x = grid.threads;
  gridDim.x = grid.blocks;
  now.fibers.resize(grid.threads);
  now.thread = &thread;
  running() = &now;
  for (unsigned i = 0; i < grid.blocks; ++i) {
    blockIdx.x = order == ThreadOrder::ascending ? i : grid.blocks - 1 - i;
    run_block(now, order);
  }
  running() = nullptr;
}

void KernelMemory::add(const void* address, bool is_written) {
  Allocation* const found = find_allocation(address);
  TORCH_CHECK(found != nullptr,
              "simulated GPU: a kernel uses what is no memory of a device");
  is_written ? write(*found, use_) : read(*found, use_);
  for (const Array& array : arrays_)
    if (array.allocation == found) return;
  arrays_.push_back({found, Bytes(found->bytes + 2 * kMarginBytes)});
}

std::byte* KernelMemory::place_of(const void* address) {
  const Allocation* const wanted = find_allocation(address);
  const auto found = std::find_if(
      arrays_.begin(), arrays_.end(),
      [&](const Array& array) { return array.allocation == wanted; });
  TORCH_CHECK(found != arrays_.end(),
              "simulated GPU: a kernel uses what is none of its arrays");
  return found->copy.data() + kMarginBytes +
         (static_cast<const std::byte*>(address) - wanted->data);
}

KernelMemory::Run KernelMemory::run_once(
    ThreadOrder order, std::byte margin,
    const std::function<void(ThreadOrder)>& kernel) {
  for (Array& array : arrays_) {
    std::fill(array.copy.begin(), array.copy.end(), margin);
    std::memcpy(array.copy.data() + kMarginBytes,
                operands_at(*array.allocation, array.allocation->data),
                array.allocation->bytes);
  }
  kernel(order);
  Run run;
  for (const Array& array : arrays_) {
    const auto begin =
        array.copy.begin() + static_cast<std::ptrdiff_t>(kMarginBytes);
    const auto end =
        array.copy.end() - static_cast<std::ptrdiff_t>(kMarginBytes);
    const auto is_margin = [&](std::byte byte) { return byte == margin; };
    run.margins_hold = run.margins_hold &&
                       std::all_of(array.copy.begin(), begin, is_margin) &&
                       std::all_of(end, array.copy.end(), is_margin);
    run.arrays.emplace_back(begin, end);
  }
  return run;
}

void KernelMemory::run(const std::function<void(ThreadOrder)>& kernel) {
  const Run first = run_once(ThreadOrder::ascending, kFirstMargin, kernel);
  const Run second = run_once(ThreadOrder::descending, kSecondMargin, kernel);
  if (!first.margins_hold || !second.margins_hold)
    report("a kernel writes beyond its arrays");
  else if (first.arrays != second.arrays)
    report(
        "what a kernel gives depends on the order of its threads, or on memory "
        "beyond its arrays");
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    const Allocation& allocation = *arrays_[i].allocation;
    std::memcpy(operands_at(allocation, allocation.data),
                first.arrays[i].data(), allocation.bytes);
  }
}

}  // namespace sluice::simcuda
