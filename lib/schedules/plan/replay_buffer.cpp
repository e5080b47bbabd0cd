#include "lib/schedules/plan/replay_buffer.h"

#include <utility>

#include "lib/base/error.h"

namespace sluice {

ReplayBuffer::ReplayBuffer(ReplayOptions options)
    : options_(options), random_(options.key) {
  SLUICE_CHECK(options_.batches >= 1, "a replay buffer of {} batches",
               options_.batches);
}

std::int64_t ReplayBuffer::reads_left() const {
  std::int64_t left = 0;
  for (const Entry& entry : entries_)
    left += options_.max_reuse + 1 - entry.uses;
  return left;
}

bool ReplayBuffer::has_room() const {
  if (!is_bounded() || std::ssize(entries_) < options_.batches) return true;
  // A new entry brings as many reads as it has; a reservoir may not take it.
  const bool is_taken = options_.order != ReplayOrder::reservoir;
  const std::int64_t gained = is_taken ? entries_.front().uses : 0;
  return read_ + reads_left() + gained >= written_ + 1;
}

std::optional<std::size_t> ReplayBuffer::next_to_leave() {
  if (options_.order != ReplayOrder::reservoir) return 0;
  const std::uint64_t place =
      random_.below(static_cast<std::uint64_t>(written_));
  if (place >= entries_.size()) return std::nullopt;
  return place;
}

void ReplayBuffer::write(Message message) {
  ++written_;
  if (std::ssize(entries_) == options_.batches) {
    const std::optional<std::size_t> leaves = next_to_leave();
    if (!leaves) return;
    entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(*leaves));
  }
  entries_.push_back({std::move(message)});
}

std::size_t ReplayBuffer::next_to_read() {
  if (options_.order == ReplayOrder::reservoir)
    return random_.below(entries_.size());
  const bool newest_wins = options_.order == ReplayOrder::priority_lifo;
  std::size_t best = 0;
  for (std::size_t i = 1; i < entries_.size(); ++i)
    if (entries_[i].uses < entries_[best].uses ||
        (newest_wins && entries_[i].uses == entries_[best].uses))
      best = i;
  return best;
}

std::optional<ReplayBuffer::Use> ReplayBuffer::read() {
  if (entries_.empty()) return std::nullopt;
  const std::size_t index = next_to_read();
  Entry& entry = entries_[index];
  Use use{entry.message, entry.uses++};
  ++read_;
  if (is_bounded() && use.reuse >= options_.max_reuse)
    entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(index));
  return use;
}

std::size_t ReplayBuffer::bytes() const {
  std::size_t bytes = 0;
  for (const Entry& entry : entries_) bytes += payload_bytes(entry.message);
  return bytes;
}

}  // namespace sluice
