#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace sluice {

/// The two numbers behind a MemoryAccount. They live until the account is
/// closed and its last block was freed. Any thread may call.
class MemoryBalance {
 public:
  void charge(std::size_t bytes);
  /// Deletes the balance with the last block of a closed account.
  void credit(std::size_t bytes);
  /// The owner won't look again.
  void close();

  std::size_t live_bytes() const;
  std::size_t peak_bytes() const;
  void reset_peak();

 private:
  // The top bit says that the account was closed.
  std::atomic<std::size_t> live_ = 0;
  std::atomic<std::size_t> peak_ = 0;
};

/// The memory of one owner: counts the bytes of CPU tensors that were allocated
/// inside its scopes and still live, on whatever thread they are freed.
/// Requested bytes are counted, so that the figures don't depend on how
/// allocations are rounded, and only those from Sluice's allocator: without it
/// everything is 0. May end before its memory does; must outlive its scopes.
/// Any thread may read, and several may allocate; only a reset_peak() beside
/// allocations of other threads may miss a peak.
class MemoryAccount {
 public:
  explicit MemoryAccount(std::string name);
  ~MemoryAccount();
  MemoryAccount(const MemoryAccount&) = delete;
  MemoryAccount& operator=(const MemoryAccount&) = delete;

  const std::string& name() const { return name_; }
  std::size_t live_bytes() const { return balance_->live_bytes(); }
  /// The most that was live at once since the last reset_peak().
  std::size_t peak_bytes() const { return balance_->peak_bytes(); }
  void reset_peak() { balance_->reset_peak(); }

 private:
  friend class MemoryScope;
  std::string name_;
  MemoryBalance* balance_;  // owned together with the blocks charged to it
};

/// Charges what this thread allocates, while the scope lives, to `account`. The
/// innermost scope counts. Threads that are started inside it, those of OpenMP
/// included, don't inherit it.
class MemoryScope {
 public:
  explicit MemoryScope(const MemoryAccount& account);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

 private:
  MemoryBalance* outer_;
};

/// Bytes that this thread has charged to accounts, less those of theirs that it
/// has freed: the difference of two calls is what it allocated in between and
/// still lives, whatever other threads did meanwhile. Bytes.
std::int64_t charged_by_this_thread();

/// Charges `bytes` (> 0) to the account of the innermost scope of this thread.
/// Returns what has to be credited when they are freed; null outside scopes.
MemoryBalance* charge_current_account(std::size_t bytes);

}  // namespace sluice
