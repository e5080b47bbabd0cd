#pragma once

#include <cstddef>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/simcuda/device_memory.h"
#include "tests/simcuda/machine.h"

// Kernels as functions of C++, called once for each thread of each block. The
// threads of a block run one after the other, each up to its end or to the next
// barrier, in two orders: ascending, and then, from the memory as it was,
// descending. What a kernel gives must be the same. It works on copies of its
// arrays with margins around them, which hold something else each time: so what
// depends on memory beyond an array shows too, and what is written there. (An
// allocation is a multiple of 512 bytes; within it nothing is known of arrays.)
namespace sluice::simcuda {

struct ThreadIndex {
  unsigned x = 0;
};

/// __syncthreads(): goes on when all threads of the block have come here. That
/// some of them don't is reported.
void wait_for_block();

struct Grid {
  unsigned blocks = 1;
  unsigned threads = 1;
};
enum class ThreadOrder { ascending, descending };

/// Calls `thread` for each.
void run_threads(const Grid& grid, ThreadOrder order,
                 const std::function<void()>& thread);

/// The arrays of a launch.
class KernelMemory {
 public:
  explicit KernelMemory(Use use) : use_(std::move(use)) {}

  /// Throws c10::Error where no memory of a device is.
  void add(const void* address, bool is_written);
  /// Where the kernel finds it.
  std::byte* place_of(const void* address);
  /// Runs it in both orders, and reports what must not be. The device's memory
  /// is then as after the first.
  void run(const std::function<void(ThreadOrder)>& kernel);

 private:
  using Bytes = std::vector<std::byte>;
  struct Array {
    Allocation* allocation = nullptr;
    Bytes copy = {};
  };
  struct Run {
    std::vector<Bytes> arrays = {};
    bool margins_hold = true;
  };

  Run run_once(ThreadOrder order, std::byte margin,
               const std::function<void(ThreadOrder)>& kernel);

  const Use use_;
  std::vector<Array> arrays_ = {};
};

template <class T>
void add_argument([[maybe_unused]] KernelMemory& memory,
                  [[maybe_unused]] const T& argument) {
  if constexpr (std::is_pointer_v<T>)
    memory.add(argument, !std::is_const_v<std::remove_pointer_t<T>>);
}

/// A pointer to where the kernel finds the same; else the value.
template <class T>
T translated([[maybe_unused]] KernelMemory& memory, const T& argument) {
  if constexpr (std::is_pointer_v<T>)
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast)
    return reinterpret_cast<T>(memory.place_of(argument));
  else
    return argument;
}

/// The kernel as part of that use.
template <class... Parameters>
void run_kernel(const Grid& grid, const Use& use, void (*kernel)(Parameters...),
                const std::type_identity_t<Parameters>&... arguments) {
  KernelMemory memory(use);
  (add_argument<Parameters>(memory, arguments), ...);
  memory.run([&](ThreadOrder order) {
    const std::tuple<Parameters...> given(
        translated<Parameters>(memory, arguments)...);
    run_threads(grid, order, [&] { std::apply(kernel, given); });
  });
}

/// One launch in the stream of that number; under the machine's lock.
template <class... Parameters>
void launch(const Grid& grid, std::size_t stream, void (*kernel)(Parameters...),
            const std::type_identity_t<Parameters>&... arguments) {
  if (Capture* const capture = capture_of(stream)) {
    run_kernel<Parameters...>(grid, {}, kernel, arguments...);
    capture->add([=](const Use& replay) {
      run_kernel<Parameters...>(grid, replay, kernel, arguments...);
    });
    return;
  }
  const Use use = start(stream, "a kernel");
  ++machine().counts.launches;
  run_kernel<Parameters...>(grid, use, kernel, arguments...);
}

}  // namespace sluice::simcuda

// CUDA's variables, which are set for the thread that runs.
extern thread_local sluice::simcuda::ThreadIndex threadIdx;
extern thread_local sluice::simcuda::ThreadIndex blockIdx;
extern thread_local sluice::simcuda::ThreadIndex blockDim;
extern thread_local sluice::simcuda::ThreadIndex gridDim;
