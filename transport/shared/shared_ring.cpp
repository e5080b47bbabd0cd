#include "transport/shared/shared_ring.h"

#include <algorithm>
#include <cstring>

#include "lib/base/error.h"
#include "transport/shared/copy_past_cache.h"

namespace sluice {
namespace {

// Number of bytes between the two indices. The other end's index may be
// anything.
std::size_t distance(std::uint64_t tail, std::uint64_t head,
                     std::size_t capacity) {
  if (tail - head > capacity) {
    throw LinkError(
        "its ring in shared memory is damaged: {} bytes written, {} read, "
        "room for {}",
        tail, head, capacity);
  }
  return tail - head;
}

bool taken_off(std::atomic<std::uint32_t>& sleeps, SleepReason what) {
  return sleeps.load() >= static_cast<std::uint32_t>(what) &&
         sleeps.exchange(0) != 0;
}

}  // namespace

RingWriter::RingWriter(RingWords& words, std::span<std::byte> bytes)
    : words_(words), bytes_(bytes) {}

std::size_t RingWriter::room() const {
  return bytes_.size() - distance(tail_, words_.head.load(), bytes_.size());
}

void RingWriter::write(std::span<const std::byte> from) {
  if (from.empty()) return;
  const std::size_t at = tail_ & (bytes_.size() - 1);
  const std::size_t before_end = std::min(from.size(), bytes_.size() - at);
  std::memcpy(bytes_.data() + at, from.data(), before_end);
  std::memcpy(bytes_.data(), from.data() + before_end,
              from.size() - before_end);
  tail_ += from.size();
}

bool RingWriter::publish(SleepReason what) {
  published_.store(tail_);
  words_.tail.store(tail_);
  return taken_off(words_.reader_sleeps, what);
}

RingReader::RingReader(RingWords& words, std::span<const std::byte> bytes)
    : words_(words), bytes_(bytes) {}

std::size_t RingReader::available() const {
  return distance(words_.tail.load(), head_, bytes_.size());
}

void RingReader::read(std::span<std::byte> to, ReadTarget into) {
  if (to.empty()) return;
  const auto copy = [into](std::byte* here, const std::byte* from,
                           std::size_t bytes) {
    if (into == ReadTarget::memory)
      copy_past_cache(here, from, bytes);
    else
      std::memcpy(here, from, bytes);
  };
  const std::size_t at = head_ & (bytes_.size() - 1);
  const std::size_t before_end = std::min(to.size(), bytes_.size() - at);
  copy(to.data(), bytes_.data() + at, before_end);
  copy(to.data() + before_end, bytes_.data(), to.size() - before_end);
  head_ += to.size();
}

bool RingReader::release() {
  released_.store(head_);
  words_.head.store(head_);
  return taken_off(words_.writer_sleeps, SleepReason::message);
}

}  // namespace sluice
