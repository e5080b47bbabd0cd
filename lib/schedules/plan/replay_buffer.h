#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "lib/base/messages/message.h"
#include "lib/base/random.h"

namespace sluice {

/// Order in which entries of a replay buffer are read, and leave it when it is
/// full.
enum class ReplayOrder : std::uint8_t {
  /// The entry written last, among those used least, is read; the oldest one
  /// leaves. As in the code of DGL (arXiv:1901.08164).
  priority_lifo,
  /// The oldest entry, among those used least, is read; the oldest one leaves.
  fifo,
  /// A random entry is read. The full buffer holds a uniform sample of the n
  /// messages written: the n-th takes the place of a random one with
  /// probability batches / n, or is dropped (Vitter's algorithm R, 1985).
  reservoir
};

struct ReplayOptions {
  std::int64_t batches = 1;  ///< capacity, >= 1
  ReplayOrder order = ReplayOrder::priority_lifo;
  /// Number of times that an entry is used again after its first use; then it
  /// leaves. Negative: any number of times.
  std::int64_t max_reuse = -1;
  std::uint64_t key = 0;  ///< key of the random choices

  bool operator==(const ReplayOptions&) const = default;
};

/// Replay buffer at a boundary between two blocks that don't wait for each
/// other. Entries are whole messages, so that labels stay with their
/// activations. A message stays after it was read until it is used up. When
/// reuse is limited, the writer should wait for has_room(): then the reader can
/// read at least as often as messages were written, although some are dropped.
class ReplayBuffer {
 public:
  explicit ReplayBuffer(ReplayOptions options);

  struct Use {
    Message message;         ///< shares its buffers with the entry
    std::int64_t reuse = 0;  ///< how often it had been used before
  };

  /// Whether a write would leave the reader enough to read: the reads done, and
  /// the reads that the entries still allow after the write, are together at
  /// least as many as the writes.
  bool has_room() const;
  /// Stores the message, or drops it where the order says so; never waits.
  void write(Message message);
  /// The next message to use; nothing when the buffer is empty.
  std::optional<Use> read();
  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }
  std::int64_t written() const { return written_; }
  /// Bytes of all entries.
  std::size_t bytes() const;

 private:
  struct Entry {
    Message message;
    std::int64_t uses = 0;
  };
  bool is_bounded() const { return options_.max_reuse >= 0; }
  std::int64_t reads_left() const;
  std::size_t next_to_read();
  /// The entry that leaves the full buffer, by `order`; nothing: the new
  /// message is dropped instead.
  std::optional<std::size_t> next_to_leave();

  ReplayOptions options_;
  KeyedRandom random_;
  std::int64_t written_ = 0;
  std::int64_t read_ = 0;
  std::vector<Entry> entries_;  // the oldest first
};

}  // namespace sluice
