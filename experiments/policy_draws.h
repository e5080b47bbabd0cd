#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace sluice {

/// Where LibTorch's process-wide generator stands when the policies of each
/// block are made. A policy of somebody's own may draw weights from it, and
/// blocks are made in other threads and processes, in any order: they shall
/// draw the same everywhere, registered as parameters or not.
struct PolicyDraws {
  at::Tensor at_config;            ///< when the config is read
  std::vector<at::Tensor> blocks;  ///< index k-1
  /// Held by whoever draws in this process. Making a policy may make layers,
  /// which takes it once more.
  std::shared_ptr<std::recursive_mutex> turn;
};

/// State of that generator.
at::Tensor generator_state();

/// For another process, which has a `turn` of its own.
void save_draws(const PolicyDraws& draws, const std::string& path);
PolicyDraws load_draws(const std::string& path);

/// During its life the generator stands where `state` says, for this thread
/// alone; afterwards it is as it was.
class DrawsFrom {
 public:
  DrawsFrom(const at::Tensor& state,
            const std::shared_ptr<std::recursive_mutex>& turn);
  ~DrawsFrom();
  DrawsFrom(const DrawsFrom&) = delete;
  DrawsFrom& operator=(const DrawsFrom&) = delete;

 private:
  std::unique_lock<std::recursive_mutex> lock_;
  at::Tensor before_;
};

}  // namespace sluice
