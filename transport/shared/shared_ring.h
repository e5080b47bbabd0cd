#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice {

inline constexpr std::size_t kCacheLine = 64;

/// Words of writer and reader of a ring to each other, in the memory that they
/// share. Each end keeps its own index to itself and only tells it here; the
/// other's is checked whenever it is read.
struct RingWords {
  alignas(kCacheLine) std::atomic<std::uint64_t> tail = 0;  ///< bytes written
  /// Progress of the learner in the writer's process, written every
  /// LinkOptions::heartbeat. A write wakes no thread.
  std::atomic<std::uint64_t> progress = 0;
  alignas(kCacheLine) std::atomic<std::uint64_t> head = 0;  ///< bytes read
  /// Set by an end that is about to sleep, before it looks once more; cleared
  /// by the other end, which then wakes it. The reader's holds what it sleeps
  /// for (SleepReason).
  alignas(kCacheLine) std::atomic<std::uint32_t> reader_sleeps = 0;
  alignas(kCacheLine) std::atomic<std::uint32_t> writer_sleeps = 0;
};

/// What a reader sleeps for. One that waits for a message need not be woken for
/// a credit, which says nothing to it.
enum class SleepReason : std::uint32_t { message = 1, credit = 2 };

static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
              std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(sizeof(RingWords) == 4 * kCacheLine);

/// A byte ring between two processes, or threads: one writes, one reads. The
/// size of `bytes` is a power of two. Both must outlive the ring's ends. Each
/// end is one thread's at a time, but for has_room() and has_data(), which any
/// thread may ask.
///
/// The orders are sequentially consistent: of "I published; do you sleep?" and
/// "I sleep; did you publish?" at least one must see the other.
class RingWriter {
 public:
  RingWriter(RingWords& words, std::span<std::byte> bytes);

  /// Bytes that may be written now. Throws LinkError when the reader's index
  /// can't be.
  std::size_t room() const;
  /// Writes at most room() bytes; the reader doesn't see them yet.
  void write(std::span<const std::byte> from);
  /// Now it does; `what` is the least that it must want to be woken for it.
  /// True: it sleeps and must be woken.
  bool publish(SleepReason what = SleepReason::message);
  bool has_room() const {
    return published_.load() - words_.head.load() != bytes_.size();
  }
  /// Says that the writer will sleep. Look at has_room() once more before it
  /// does.
  void announce_sleep() { words_.writer_sleeps.store(1); }

 private:
  RingWords& words_;
  const std::span<std::byte> bytes_;
  std::uint64_t tail_ = 0;
  std::atomic<std::uint64_t> published_ = 0;
};

class RingReader {
 public:
  RingReader(RingWords& words, std::span<const std::byte> bytes);

  /// Bytes that may be read now. Throws LinkError when the writer's index can't
  /// be.
  std::size_t available() const;
  /// Where what is read goes; for what is larger than a cache, straight to
  /// memory is faster.
  enum class ReadTarget : std::uint8_t { cache, memory };
  /// Reads at most available() bytes; the writer can't use their room yet.
  void read(std::span<std::byte> to, ReadTarget into = ReadTarget::cache);
  void skip(std::size_t count) { head_ += count; }
  /// Gives the room of what was read back. True: the writer sleeps and must be
  /// woken.
  bool release();
  bool has_data() const { return words_.tail.load() != released_.load(); }
  /// Says that the reader will sleep. Look at has_data() once more before it
  /// does.
  void announce_sleep(SleepReason what) {
    words_.reader_sleeps.fetch_or(static_cast<std::uint32_t>(what));
  }

 private:
  RingWords& words_;
  const std::span<const std::byte> bytes_;
  std::uint64_t head_ = 0;
  std::atomic<std::uint64_t> released_ = 0;
};

}  // namespace sluice
