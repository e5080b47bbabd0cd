#include "lib/tensors/gpu/pinned_buffers.h"

#include <algorithm>
#include <bit>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "lib/tensors/gpu/current_device.h"

namespace sluice {
namespace {

/// Free pieces kept for each size: one is taken while the next is pinned.
constexpr std::size_t kReadyPieces = 2;
constexpr std::size_t kLeastPiece = 4096;  // a page

class PinnedPieces {
 public:
  explicit PinnedPieces(const c10::Device& device)
      : thread_([this, device](const std::stop_token& over) {
          try {
            const CurrentDevice on(device);
            supply(over);
          } catch (const std::exception&) {
            // A device that has failed: who computes there tells it.
          }
        }) {}

  /// Never waits for the thread that pins.
  std::optional<at::Tensor> take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    Pieces& pieces = sizes_[std::bit_ceil(std::max(bytes, kLeastPiece))];
    changed_.notify_one();
    if (pieces.ready.empty()) return std::nullopt;
    at::Tensor piece = std::move(pieces.ready.back());
    pieces.ready.pop_back();
    return piece;
  }

 private:
  struct Pieces {
    std::vector<at::Tensor> ready = {};
    bool refused = false;  // there is no more memory to be pinned
  };

  void supply(const std::stop_token& over) {
    std::unique_lock lock(mutex_);
    std::size_t bytes = 0;
    while (changed_.wait(lock, over, [&] { return find_wanted(bytes); }) &&
           !over.stop_requested()) {
      lock.unlock();
      at::Tensor piece = pinned(bytes);
      lock.lock();
      Pieces& pieces = sizes_[bytes];
      if (piece.defined())
        pieces.ready.push_back(std::move(piece));
      else
        pieces.refused = true;
    }
  }

  bool find_wanted(std::size_t& bytes) const {
    for (const auto& [size, pieces] : sizes_)
      if (!pieces.refused && pieces.ready.size() < kReadyPieces) {
        bytes = size;
        return true;
      }
    return false;
  }

  /// Pinned memory; undefined where CUDA refuses it.
  static at::Tensor pinned(std::size_t bytes) {
    try {
      return at::empty({static_cast<std::int64_t>(bytes)},
                       at::TensorOptions(at::kByte).pinned_memory(true));
    } catch (const std::exception&) {
      return {};
    }
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::map<std::size_t, Pieces> sizes_;  // sizes taken so far
  std::jthread thread_;                  // last: it uses all of the above
};

}  // namespace

BufferSource pinned_buffers(const c10::Device& device, BufferSource otherwise) {
  return [pieces = std::make_shared<PinnedPieces>(device),
          otherwise = std::move(otherwise)](std::size_t bytes) -> Buffer {
    std::optional<at::Tensor> piece = pieces->take(bytes);
    if (!piece) return otherwise(bytes);
    auto owner = std::make_shared<at::Tensor>(std::move(*piece));
    return {.data = static_cast<std::byte*>(owner->data_ptr()),
            .bytes = bytes,
            .owner = std::move(owner)};
  };
}

}  // namespace sluice
