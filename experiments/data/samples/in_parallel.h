#pragma once

#include <cstddef>
#include <functional>

namespace sluice {

/// Calls `work` for each i in [0, count), each once, on so many threads, of
/// which the caller's is one. `thread` is below `threads`: two calls with the
/// same never overlap. Waits for all; then throws the error of the lowest i
/// whose call threw one.
void in_parallel(
    std::size_t count, std::size_t threads,
    const std::function<void(std::size_t thread, std::size_t i)>& work);

}  // namespace sluice
