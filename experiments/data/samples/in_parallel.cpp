#include "experiments/data/samples/in_parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

namespace sluice {

void in_parallel(
    std::size_t count, std::size_t threads,
    const std::function<void(std::size_t thread, std::size_t i)>& work) {
  std::vector<std::exception_ptr> errors(count);
  std::atomic<std::size_t> next = 0;
  const auto run = [&](std::size_t thread) {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(thread, i);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> others;
    for (std::size_t thread = 1; thread < std::min(threads, count); ++thread)
      others.emplace_back(run, thread);
    run(0);
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace sluice
