#include "transport/meeting/rendezvous.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <mutex>
#include <utility>

#include "lib/base/error.h"
#include "transport/links/hello.h"
#include "transport/meeting/greeted_link.h"
#include "transport/meeting/transports.h"
#include "transport/meeting/whereabouts.h"
#include "transport/wire/completion.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

Clock::time_point end_of(Deadline patience) {
  return Clock::now() + std::min(patience, kLongestWait);
}

MeetingOptions meeting_options(const RendezvousOptions& options) {
  MeetingOptions meeting = {.identity = {.secret = options.secret},
                            .name = options.name};
  if (options.judge)
    meeting.judge = [judge = options.judge](const Hello& hello) {
      return hello.refusal.empty() ? judge(hello.from, hello.run)
                                   : hello.refusal;
    };
  return meeting;
}

bool has_marks(const RendezvousOptions& options) {
  return !options.near.empty();
}

/// Options of the links with workers of the same host.
RendezvousOptions near_options_of(RendezvousOptions options) {
  options.transport = options.near;
  options.reconnect = Deadline(0);
  return options;
}

// Peers sorted by number, lowest first.
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
        near_options_(near_options_of(options_)),
        peers_(in_order(std::move(peers), block, options_.blocks)),
        until_(end_of(options_.patience)),
        meeting_(io, transport_of(options_.transport), identity()) {
    if (has_marks(options_))
      near_.emplace(io, transport_of(options_.near), identity());
  }

  JoinedLinks join(const std::string& address) {
    JoinedLinks joined;
    meet_launcher(address, joined);
    for (const PeerLink& link : peers_)
      if (calls(link))
        meeting_with(link.peer).call(address_of(link.peer), hello_to(link));
    for (const PeerLink& link : peers_) {
      joined.peers.emplace(link.peer, link_with(link));
      joined.transports.emplace(link.peer, options_for(link.peer).transport);
    }
    return joined;
  }

 private:
  MeetingOptions identity() const {
    return {.identity = {.secret = options_.secret, .from = block_},
            .name = options_.name};
  }

  bool calls(const PeerLink& link) const { return link.peer > block_; }

  // A worker without callers doesn't listen.
  Whereabouts listen(const std::string& launcher) {
    Whereabouts here{.mark = options_.mark};
    if (peers_.empty() || calls(peers_.front())) return here;
    const std::string name = fmt::format("b{}", block_);
    here.address = meeting_.listen(
        {.folder = std::filesystem::path(launcher).parent_path(),
         .name = name,
         .host = options_.host,
         .launcher = launcher});
    if (!near_) return here;
    sockets_.emplace();
    here.near = near_->listen({.folder = sockets_->path(), .name = name});
    return here;
  }

  // Joins the launcher, and learns where the other workers listen.
  void meet_launcher(const std::string& address, JoinedLinks& joined) {
    const Hello mine{
        .from = block_,
        .to = 0,
        .blocks = options_.blocks,
        .capacity_send = options_.control.up,
        .capacity_receive = options_.control.down,
        .reconnect_ms = reconnect_ms(options_),
        .addresses = to_texts(listen(address), has_marks(options_)),
        .run = options_.run};
    meeting_.call(address, mine);
    AcceptedPeer launcher = meeting_.wait_for(0, until_, options_.check);
    workers_ = whereabouts_from(launcher.hello.addresses, options_.blocks,
                                has_marks(options_), 0);
    joined.run = launcher.hello.run;
    joined.control = caller_link(io_, meeting_, address, std::move(launcher),
                                 mine, options_);
  }

  // Whether the peer is on this host. Both ends decide alike: the launcher has
  // sent both marks to both.
  bool is_near(std::uint32_t peer) const {
    return near_ && !options_.mark.empty() &&
           workers_[peer - 1].mark == options_.mark;
  }

  const RendezvousOptions& options_for(std::uint32_t peer) const {
    return is_near(peer) ? near_options_ : options_;
  }

  Meeting& meeting_with(std::uint32_t peer) {
    return is_near(peer) ? *near_ : meeting_;
  }

  const std::string& address_of(std::uint32_t peer) const {
    const Whereabouts& worker = workers_[peer - 1];
    const std::string& address = is_near(peer) ? worker.near : worker.address;
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
            .reconnect_ms = reconnect_ms(options_for(link.peer))};
  }

  Link link_with(const PeerLink& link) {
    Meeting& meeting = meeting_with(link.peer);
    const RendezvousOptions& options = options_for(link.peer);
    AcceptedPeer peer = meeting.wait_for(link.peer, until_, options_.check);
    if (calls(link)) {
      return caller_link(io_, meeting, address_of(link.peer), std::move(peer),
                         hello_to(link), options);
    }
    return called_link(io_, meeting, std::move(peer), hello_to(link), options);
  }

  IoThread& io_;
  const std::uint32_t block_;
  const RendezvousOptions options_;
  const RendezvousOptions near_options_;
  const std::vector<PeerLink> peers_;
  const Clock::time_point until_;
  Meeting meeting_;
  std::optional<TemporaryFolder> sockets_;  // of links within the host
  std::optional<Meeting> near_;             // the workers of the same host
  std::vector<Whereabouts> workers_ = {};   // block 1 first
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

// Adds a worker's address to the list that all workers get.
void Rendezvous::add_worker(const Hello& hello,
                            std::vector<std::string>& addresses) {
  const bool marked = has_marks(options_);
  const Whereabouts its =
      whereabouts_from(hello.addresses, 1, marked, hello.from).front();
  if (marked) marks_.push_back(its.mark);
  for (std::string& text : to_texts(its, marked))
    addresses.push_back(std::move(text));
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
    add_worker(callers.back().hello, mine.addresses);
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

JoinedLinks join(IoThread& io, const std::string& address, std::uint32_t block,
                 const std::vector<PeerLink>& peers,
                 RendezvousOptions options) {
  return Joiner(io, block, peers, std::move(options)).join(address);
}

}  // namespace sluice
