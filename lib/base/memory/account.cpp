#include "lib/base/memory/account.h"

#include <utility>

namespace sluice {
namespace {

constexpr std::size_t kClosed = ~(~std::size_t{0} >> 1);

constinit thread_local MemoryBalance* current_balance = nullptr;
constinit thread_local std::int64_t charged_here = 0;

}  // namespace

void MemoryBalance::charge(std::size_t bytes) {
  charged_here += static_cast<std::int64_t>(bytes);
  const std::size_t live =
      (live_.fetch_add(bytes, std::memory_order_relaxed) + bytes) & ~kClosed;
  std::size_t peak = peak_.load(std::memory_order_relaxed);
  while (live > peak &&
         !peak_.compare_exchange_weak(peak, live, std::memory_order_relaxed)) {
  }
}

void MemoryBalance::credit(std::size_t bytes) {
  charged_here -= static_cast<std::int64_t>(bytes);
  // The thread that deletes must see what all others did before.
  if (live_.fetch_sub(bytes, std::memory_order_acq_rel) - bytes == kClosed) {
    delete this;
  }
}

void MemoryBalance::close() {
  if (live_.fetch_or(kClosed, std::memory_order_acq_rel) == 0) delete this;
}

std::size_t MemoryBalance::live_bytes() const {
  return live_.load(std::memory_order_relaxed) & ~kClosed;
}

std::size_t MemoryBalance::peak_bytes() const {
  return peak_.load(std::memory_order_relaxed);
}

void MemoryBalance::reset_peak() {
  peak_.store(live_bytes(), std::memory_order_relaxed);
}

MemoryAccount::MemoryAccount(std::string name)
    : name_(std::move(name)), balance_(new MemoryBalance) {}

MemoryAccount::~MemoryAccount() {
  balance_->close();
}

MemoryScope::MemoryScope(const MemoryAccount& account)
    : outer_(std::exchange(current_balance, account.balance_)) {}

MemoryScope::~MemoryScope() {
  current_balance = outer_;
}

std::int64_t charged_by_this_thread() {
  return charged_here;
}

MemoryBalance* charge_current_account(std::size_t bytes) {
  if (current_balance != nullptr) current_balance->charge(bytes);
  return current_balance;
}

}  // namespace sluice
