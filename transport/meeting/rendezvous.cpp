#include "transport/meeting/rendezvous.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <mutex>
#include <utility>

#include "lib/base/error.h"
#include "transport/links/hello.h"
#include "transport/meeting/transports.h"
#include "transport/wire/completion.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

Clock::time_point end_of(Deadline patience) {
  return Clock::now() + std::min(patience, kLongestWait);
}

std::uint64_t reconnect_ms(const RendezvousOptions& options) {
  return static_cast<std::uint64_t>(options.reconnect.count());
}

LinkOptions link_options(const Hello& mine, const RendezvousOptions& options,
                         std::shared_ptr<Reconnector> reconnector) {
  LinkOptions link = {.here = block_name(mine.from),
                      .there = block_name(mine.to),
                      .capacity_send = mine.capacity_send,
                      .capacity_receive = mine.capacity_receive,
                      .deadline = options.deadline,
                      .checksum = transport_of(options.transport).checksum,
                      .reconnect = options.reconnect,
                      .reconnector = std::move(reconnector),
                      .limits = options.limits,
                      .buffers = options.buffers,
                      .shared_memory = options.shared_memory};
  if (options.reconnected) {
    link.reconnected = [to = mine.to, reconnected = options.reconnected](
                           std::chrono::milliseconds without) {
      reconnected(to, without);
    };
  }
  if (options.damage) {
    link.damage = [to = mine.to, damage = options.damage](
                      const Message& message, std::span<std::byte> frame) {
      damage(to, message, frame);
    };
  }
  return link;
}

Hello in_session(Hello mine, const AcceptedPeer& accepted) {
  mine.session = accepted.session;
  mine.run.clear();  // it has been judged
  return mine;
}

// The link of a side that called: its hello was written already.
Link caller_link(IoThread& io, Meeting& meeting, const std::string& address,
                 AcceptedPeer accepted, const Hello& mine,
                 const RendezvousOptions& options) {
  std::shared_ptr<Reconnector> reconnector;
  if (options.reconnect.count() > 0) {
    reconnector =
        meeting.reconnector_of_caller(address, in_session(mine, accepted));
  }
  return transport_of(options.transport)
      .open(io, std::move(accepted.stream),
            link_options(mine, options, std::move(reconnector)), {});
}

// The link of a side that was called: its answer is still to be written.
Link called_link(IoThread& io, Meeting& meeting, AcceptedPeer accepted,
                 const Hello& mine, const RendezvousOptions& options) {
  check_agreement(mine, accepted.hello);
  std::shared_ptr<Reconnector> reconnector;
  if (options.reconnect.count() > 0) {
    reconnector = meeting.reconnector_of_called(in_session(mine, accepted));
  }
  return transport_of(options.transport)
      .open(io, std::move(accepted.stream),
            link_options(mine, options, std::move(reconnector)),
            encode_hello(mine));
}

MeetingOptions meeting_options(const RendezvousOptions& options) {
  MeetingOptions meeting = {.identity = {.secret = options.secret}};
  if (options.judge)
    meeting.judge = [judge = options.judge](const Hello& hello) {
      return judge(hello.from, hello.run);
    };
  return meeting;
}

std::string address_of(const AcceptedPeer& accepted) {
  if (accepted.hello.addresses.size() != 1) {
    throw LinkError("{} gave {} addresses of its own instead of one",
                    block_name(accepted.hello.from),
                    accepted.hello.addresses.size());
  }
  return accepted.hello.addresses.front();
}

}  // namespace

Rendezvous::Rendezvous(IoThread& io, RendezvousOptions options)
    : io_(io),
      options_(std::move(options)),
      meeting_(io, transport_of(options_.transport),
               meeting_options(options_)) {
  folder_.emplace();
  address_ = meeting_.listen(
      {.folder = folder_->path(), .name = "launcher", .host = options_.host});
}

void Rendezvous::close() {
  const std::lock_guard lock(mutex_);
  folder_.reset();
}

std::vector<std::uint32_t> Rendezvous::awaited() const {
  std::vector<std::uint32_t> blocks;
  for (std::uint32_t block = 1; block <= options_.blocks; ++block)
    if (!meeting_.has_met(block)) blocks.push_back(block);
  return blocks;
}

std::vector<Link> Rendezvous::accept_workers() {
  const Clock::time_point until = end_of(options_.patience);
  std::vector<AcceptedPeer> callers;
  Hello mine{.blocks = options_.blocks,
             .capacity_send = options_.control.down,
             .capacity_receive = options_.control.up,
             .reconnect_ms = reconnect_ms(options_)};
  for (std::uint32_t block = 1; block <= options_.blocks; ++block)
    meeting_.wait_to_meet(block, until, options_.check);
  for (std::uint32_t block = 1; block <= options_.blocks; ++block) {
    callers.push_back(meeting_.wait_for(block, until, options_.check));
    mine.addresses.push_back(address_of(callers.back()));
  }
  std::vector<Link> links;
  for (AcceptedPeer& accepted : callers) {
    mine.to = accepted.hello.from;
    mine.run = accepted.hello.run.empty() ? "" : options_.run;
    links.push_back(
        called_link(io_, meeting_, std::move(accepted), mine, options_));
  }
  return links;
}

Neighbours join(IoThread& io, const std::string& address, std::uint32_t block,
                Capacity below, Capacity above, RendezvousOptions options) {
  SLUICE_CHECK(block >= 1 && block <= options.blocks, "block {} of {}", block,
               options.blocks);
  const Clock::time_point until = end_of(options.patience);
  Meeting meeting(io, transport_of(options.transport),
                  {.identity = {.secret = options.secret, .from = block}});
  std::string own;  // block 1 has no block below
  if (block > 1) {
    own =
        meeting.listen({.folder = std::filesystem::path(address).parent_path(),
                        .name = fmt::format("b{}", block),
                        .host = options.host,
                        .launcher = address});
  }
  Neighbours links;

  const Hello to_launcher{.from = block,
                          .to = 0,
                          .blocks = options.blocks,
                          .capacity_send = options.control.up,
                          .capacity_receive = options.control.down,
                          .reconnect_ms = reconnect_ms(options),
                          .addresses = {own},
                          .run = options.run};
  meeting.call(address, to_launcher);
  AcceptedPeer launcher = meeting.wait_for(0, until, options.check);
  const std::vector<std::string> addresses = launcher.hello.addresses;
  if (addresses.size() != options.blocks) {
    throw LinkError("the launcher gave the addresses of {} blocks, not of {}",
                    addresses.size(), options.blocks);
  }
  links.run = launcher.hello.run;
  links.control = caller_link(io, meeting, address, std::move(launcher),
                              to_launcher, options);

  const Hello to_above{.from = block,
                       .to = block + 1,
                       .blocks = options.blocks,
                       .capacity_send = above.up,
                       .capacity_receive = above.down,
                       .reconnect_ms = reconnect_ms(options)};
  if (block < options.blocks) meeting.call(addresses[block], to_above);
  if (block > 1) {
    const Hello to_below{.from = block,
                         .to = block - 1,
                         .blocks = options.blocks,
                         .capacity_send = below.down,
                         .capacity_receive = below.up,
                         .reconnect_ms = reconnect_ms(options)};
    links.below = called_link(io, meeting,
                              meeting.wait_for(block - 1, until, options.check),
                              to_below, options);
  }
  if (block < options.blocks) {
    links.above = caller_link(io, meeting, addresses[block],
                              meeting.wait_for(block + 1, until, options.check),
                              to_above, options);
  }
  return links;
}

}  // namespace sluice
