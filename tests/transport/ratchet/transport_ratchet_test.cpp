// Issue 18, item 15: a ratchet on what a message costs beside its bytes, over
// every transport, both ends in this process, whose sender waits until it has
// been received. Times are noisy, these counts much less so. The limits are
// what was counted last; a change that needs less should lower them, one that
// needs more has to say why.
//
// SLUICE_RATCHET=print writes all rows as they are now.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/transport/links_under_test.h"
#include "tests/transport/ratchet/system_calls.h"

namespace sluice::transport_ratchet_test {

constexpr int kMessages = 200;

struct Row {
  std::string_view transport;
  std::int64_t message;      ///< bytes
  std::int64_t calls;        ///< of a message
  std::int64_t kib;          ///< copied by the kernel
  std::int64_t wake_ups;     ///< of threads that had waited
  std::int64_t allocations;  ///< by operator new
};

// Figures of a machine of two cores that other programs use too.
constexpr Row kRows[] = {
    {"memory", 4096, 0, 0, 0, 5},
    {"memory", 1048576, 0, 0, 0, 5},
    {"unix", 4096, 12, 8, 3, 36},
    {"unix", 1048576, 36, 2049, 10, 38},
    {"tcp", 4096, 12, 8, 3, 36},
    {"tcp", 1048576, 13, 2054, 3, 37},
    {"tls", 4096, 9, 9, 3, 36},
    {"tls", 1048576, 153, 2051, 9, 38},
    {"shared_memory", 4096, 0, 0, 0, 36},
    {"shared_memory", 1048576, 9, 0, 2, 36},
};

std::string to_text(const Row& row) {
  return fmt::format("{{\"{}\", {}, {}, {}, {}, {}}},", row.transport,
                     row.message, row.calls, row.kib, row.wake_ups,
                     row.allocations);
}

Ends ends_over(std::string_view transport) {
  constexpr Deadline kPatient = std::chrono::seconds(60);
  if (transport == "memory") return memory_ends(4, kPatient);
  return transport_ends(std::string(transport).c_str(), 4, kPatient);
}

void pass(Ends& ends, std::int64_t bytes) {
  ends.lower.sender->send(
      message_of(counting_tensor(DType::uint8, {bytes}, {1})));
  ASSERT_TRUE(ends.upper.receiver->receive());
}

/// Per message, to the nearest.
Row counted(std::string_view transport, std::int64_t bytes) {
  Ends ends = ends_over(transport);
  for (int i = 0; i < 20; ++i) pass(ends, bytes);
  const SystemCalls before = system_calls_so_far();
  for (int i = 0; i < kMessages; ++i) pass(ends, bytes);
  const SystemCalls all = system_calls_so_far() - before;
  const auto per_message = [](std::int64_t value, std::int64_t unit = 1) {
    return (value + kMessages * unit / 2) / (kMessages * unit);
  };
  return {.transport = transport,
          .message = bytes,
          .calls = per_message(all.calls),
          .kib = per_message(all.bytes, 1024),
          .wake_ups = per_message(all.wake_ups),
          .allocations = per_message(all.allocations)};
}

/// How often a thread must wait, and how much it finds then, is decided by the
/// other one's speed, so calls and wake-ups may double.
bool is_within(const Row& count, const Row& limit) {
  return count.calls <= 2 * limit.calls + 4 &&
         count.wake_ups <= 2 * limit.wake_ups + 4 &&
         count.kib <= limit.kib + 8 &&
         count.allocations <= limit.allocations + 4;
}

/// Other programs of the machine only ever add: one attempt within the limit
/// shows that a message costs no more.
Row counted_within(const Row& limit) {
  constexpr int kAttempts = 5;
  Row count = counted(limit.transport, limit.message);
  for (int i = 1; i < kAttempts && !is_within(count, limit); ++i) {
    count = counted(limit.transport, limit.message);
  }
  return count;
}

TEST(TransportRatchet, NoMessageCostsMoreThanItDid) {
  const bool print = std::getenv("SLUICE_RATCHET") != nullptr;
  for (const Row& limit : kRows) {
    const Row count = counted_within(limit);
    if (print) std::printf("    %s\n", to_text(count).c_str());
    EXPECT_TRUE(is_within(count, limit))
        << to_text(count) << " where the limits are of " << to_text(limit);
  }
}

}  // namespace sluice::transport_ratchet_test
