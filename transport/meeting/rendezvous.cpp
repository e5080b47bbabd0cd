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

// Those of lower numbers first.
std::vector<PeerLink> in_order(std::vector<PeerLink> peers, std::uint32_t block,
                               std::uint32_t blocks) {
  SLUICE_CHECK(block >= 1 && block <= blocks, "block {} of {}", block, blocks);
  std::ranges::sort(peers, {}, &PeerLink::peer);
  for (std::size_t i = 0; i < peers.size(); ++i) {
    const std::uint32_t peer = peers[i].peer;
    SLUICE_CHECK(peer >= 1 && peer <= blocks && peer != block,
                 "block {} of {} can't have a link with block {}", block,
                 blocks, peer);
    SLUICE_CHECK(i == 0 || peer != peers[i - 1].peer,
                 "block {} has two links with block {}", block, peer);
  }
  return peers;
}

// A worker on its way into the run. Of two peers the lower number calls, all of
// its higher peers before it waits for any. Then each worker opens its links in
// the same order, by the lower number and then the higher: so no circle of
// workers can wait for each other.
class Joiner {
 public:
  Joiner(IoThread& io, std::uint32_t block, std::vector<PeerLink> peers,
         RendezvousOptions options)
      : io_(io),
        block_(block),
        options_(std::move(options)),
        peers_(in_order(std::move(peers), block, options_.blocks)),
        until_(end_of(options_.patience)),
        meeting_(io, transport_of(options_.transport),
                 {.identity = {.secret = options_.secret, .from = block}}) {}

  Joined join(const std::string& address) {
    Joined joined;
    meet_launcher(address, joined);
    for (const PeerLink& link : peers_)
      if (calls(link)) meeting_.call(address_of(link.peer), hello_to(link));
    for (const PeerLink& link : peers_)
      joined.peers.emplace(link.peer, link_with(link));
    return joined;
  }

 private:
  bool calls(const PeerLink& link) const { return link.peer > block_; }

  // Its address, or "": a worker that nobody calls listens nowhere.
  std::string listen(const std::string& launcher) {
    if (peers_.empty() || calls(peers_.front())) return "";
    return meeting_.listen(
        {.folder = std::filesystem::path(launcher).parent_path(),
         .name = fmt::format("b{}", block_),
         .host = options_.host,
         .launcher = launcher});
  }

  // Learns where the others listen, too.
  void meet_launcher(const std::string& address, Joined& joined) {
    const Hello mine{.from = block_,
                     .to = 0,
                     .blocks = options_.blocks,
                     .capacity_send = options_.control.up,
                     .capacity_receive = options_.control.down,
                     .reconnect_ms = reconnect_ms(options_),
                     .addresses = {listen(address)},
                     .run = options_.run};
    meeting_.call(address, mine);
    AcceptedPeer launcher = met(0);
    addresses_ = launcher.hello.addresses;
    if (addresses_.size() != options_.blocks) {
      throw LinkError("the launcher gave the addresses of {} blocks, not of {}",
                      addresses_.size(), options_.blocks);
    }
    joined.run = launcher.hello.run;
    joined.control = caller_link(io_, meeting_, address, std::move(launcher),
                                 mine, options_);
  }

  const std::string& address_of(std::uint32_t peer) const {
    const std::string& address = addresses_[peer - 1];
    if (address.empty()) {
      throw LinkError("{} can't call {}, which listens nowhere",
                      block_name(block_), block_name(peer));
    }
    return address;
  }

  Hello hello_to(const PeerLink& link) const {
    const auto [up, down] = link.capacity;
    return {.from = block_,
            .to = link.peer,
            .blocks = options_.blocks,
            .capacity_send = calls(link) ? up : down,
            .capacity_receive = calls(link) ? down : up,
            .reconnect_ms = reconnect_ms(options_)};
  }

  Link link_with(const PeerLink& link) {
    AcceptedPeer peer = met(link.peer);
    if (calls(link)) {
      return caller_link(io_, meeting_, address_of(link.peer), std::move(peer),
                         hello_to(link), options_);
    }
    return called_link(io_, meeting_, std::move(peer), hello_to(link),
                       options_);
  }

  AcceptedPeer met(std::uint32_t peer) {
    return meeting_.wait_for(peer, until_, options_.check);
  }

  IoThread& io_;
  const std::uint32_t block_;
  const RendezvousOptions options_;
  const std::vector<PeerLink> peers_;
  const Clock::time_point until_;
  Meeting meeting_;
  std::vector<std::string> addresses_ = {};  // of all workers
};

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

Joined join(IoThread& io, const std::string& address, std::uint32_t block,
            const std::vector<PeerLink>& peers, RendezvousOptions options) {
  return Joiner(io, block, peers, std::move(options)).join(address);
}

}  // namespace sluice
