#include "experiments/runs/ranks/ended_call.h"

#include <chrono>
#include <cstdint>
#include <thread>

#include "lib/base/error.h"
#include "transport/links/hello.h"
#include "transport/links/io_thread.h"
#include "transport/links/tcp.h"
#include "transport/meeting/meeting.h"
#include "transport/meeting/transports.h"

namespace sluice {
namespace {

/// The transport that ranks of several hosts may use.
const Transport& transport_between_hosts() {
  return transport_of("tls");
}

/// Block number of a rank, as workers count.
std::uint32_t block_of_rank(int rank) {
  return static_cast<std::uint32_t>(rank) + 1;
}

bool have_others_called(const Meeting& meeting, const Rank& rank) {
  for (int other = 1; other < rank.count; ++other)
    if (!meeting.has_met(block_of_rank(other))) return false;
  return true;
}

}  // namespace

void refuse_callers(const Rank& rank, const Secret& secret,
                    const std::string& reason, Deadline patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  IoThread io;
  Meeting meeting(io, transport_between_hosts(),
                  {.identity = {.secret = secret},
                   .judge = [reason](const Hello&) { return reason; }});
  meeting.listen({.host = rank.master});
  while (!have_others_called(meeting, rank) &&
         std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  // Time for the refusals to arrive.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

void call_with_reason(const Rank& rank, const Secret& secret,
                      const std::string& reason, Deadline patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  const std::uint32_t block = block_of_rank(rank.number);
  try {
    wait_for_listener(rank.master, patience);
    IoThread io;
    Meeting meeting(io, transport_between_hosts(),
                    {.identity = {.secret = secret, .from = block}});
    meeting.call(rank.master, {.from = block,
                               .to = 0,
                               .blocks = static_cast<std::uint32_t>(rank.count),
                               .refusal = reason});
    meeting.wait_for(0, end);
  } catch (const Disagreement&) {
    // Rank 0 has received the reason, and refuses in turn.
  } catch (const LinkError&) {
    // Dropped: rank 0 can't be reached.
  }
}

}  // namespace sluice
