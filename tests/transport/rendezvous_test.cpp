#include "transport/meeting/rendezvous.h"

#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <thread>

#include <boost/asio/local/stream_protocol.hpp>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "lib/base/error.h"
#include "tests/transport/fault_proxy.h"
#include "tests/transport/links_under_test.h"
#include "tests/transport/peer_chain.h"
#include "tests/transport/test_secret.h"
#include "transport/links/hello.h"
#include "transport/links/io_thread.h"
#include "transport/meeting/meeting.h"
#include "transport/meeting/transports.h"

namespace sluice::rendezvous_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::ThrowsMessage;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

// A process that runs tests/transport/helpers/peer.cpp; waited for at the end.
class Peer {
 public:
  explicit Peer(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), SLUICE_TEST_PEER);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    EXPECT_EQ(::posix_spawn(&pid_, SLUICE_TEST_PEER, nullptr, nullptr,
                            argv.data(), environ),
              0);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer() { status(); }

  // As waitpid has it.
  int status() {
    if (pid_ > 0) ::waitpid(pid_, &status_, 0);
    pid_ = -1;
    return status_;
  }

 private:
  pid_t pid_ = -1;
  int status_ = -1;
};

RendezvousOptions options_of(std::uint32_t blocks) {
  return {.blocks = blocks, .secret = test_secret()};
}

std::vector<std::string> relay(const Rendezvous& rendezvous, int block,
                               int blocks) {
  return {"relay", rendezvous.address(), std::to_string(block),
          std::to_string(blocks)};
}

TEST(Processes, PassMessagesUpAndDown) {
  IoThread io;
  Rendezvous rendezvous(io, options_of(3));
  Peer one(relay(rendezvous, 1, 3));
  Peer two(relay(rendezvous, 2, 3));
  Peer three(relay(rendezvous, 3, 3));
  std::vector<Link> links = rendezvous.accept_workers();
  int batches = 0;
  while (auto message = links[0].receiver->receive()) {
    EXPECT_EQ(message->batch, batches++);
    EXPECT_EQ(message->tensors.size(), 3u);
  }
  EXPECT_EQ(batches, 20);
  EXPECT_FALSE(links[2].receiver->receive().has_value());
  EXPECT_EQ(one.status(), 0);
  EXPECT_EQ(two.status(), 0);
  EXPECT_EQ(three.status(), 0);
}

TEST(Processes, KilledOneFailsAReceive) {
  IoThread io;
  Rendezvous rendezvous(io, options_of(1));
  Peer peer({"die_waited_for", rendezvous.address()});
  std::vector<Link> links = rendezvous.accept_workers();
  links[0].sender->send({});
  EXPECT_THAT(
      [&] { links[0].receiver->receive(); },
      ThrowsMessage<LinkError>(HasSubstr(
          "the launcher waited for a message from block 1: it is gone")));
  EXPECT_TRUE(WIFSIGNALED(peer.status()));
}

TEST(Processes, AreCalledWhatTheRunCallsThem) {
  IoThread io;
  RendezvousOptions options = options_of(1);
  options.name = [](std::uint32_t block) {
    return block == 0 ? "the crew" : "block 1 of replica 3";
  };
  Rendezvous rendezvous(io, options);
  Peer peer({"die_waited_for", rendezvous.address()});
  std::vector<Link> links = rendezvous.accept_workers();
  links[0].sender->send({});
  EXPECT_THAT([&] { links[0].receiver->receive(); },
              ThrowsMessage<LinkError>(
                  HasSubstr("the crew waited for a message from block 1 of "
                            "replica 3: it is gone")));
}

TEST(Processes, KilledOneFailsASend) {
  IoThread io;
  Rendezvous rendezvous(io, options_of(1));
  Peer peer({"die_unread", rendezvous.address()});
  std::vector<Link> links = rendezvous.accept_workers();
  links[0].sender->send({});
  EXPECT_THAT(
      [&] { links[0].sender->send({}); },
      ThrowsMessage<LinkError>(HasSubstr(
          "the launcher waited for block 1 to take a message: it is gone")));
  EXPECT_TRUE(WIFSIGNALED(peer.status()));
}

// The rest is in one process: workers are threads with an I/O thread each.

struct Seat {
  IoThread io = {};
  JoinedLinks links = {};
};

TEST(Rendezvous, RendezvousOfOneBlockHasNoPeers) {
  IoThread io;
  Rendezvous rendezvous(io, options_of(1));
  auto accepted = std::async(std::launch::async,
                             [&] { return rendezvous.accept_workers(); });
  Seat worker;
  worker.links = join(worker.io, rendezvous.address(), 1, {}, options_of(1));
  EXPECT_EQ(accepted.get().size(), 1u);
  EXPECT_THAT(worker.links.peers, IsEmpty());
}

// Numbers that a worker gets from each of its peers.
using PeerNumbers = std::map<std::uint32_t, std::int64_t>;

// Joins, sends each peer a number that names both, and receives theirs.
PeerNumbers talk(const std::string& address, std::uint32_t block,
                 const std::vector<PeerLink>& peers,
                 const RendezvousOptions& options) {
  Seat worker;
  worker.links = join(worker.io, address, block, peers, options);
  PeerNumbers heard;
  for (auto& [peer, link] : worker.links.peers) {
    link.sender->send({.batch = 10 * block + peer});
    link.sender->close();
  }
  for (auto& [peer, link] : worker.links.peers) {
    heard[peer] = link.receiver->receive()->batch;
    EXPECT_FALSE(link.receiver->receive().has_value());
  }
  return heard;
}

// All of a run: the worker of number i + 1 has the peers at i.
std::vector<PeerNumbers> talk_all(
    Rendezvous& rendezvous, const std::vector<std::vector<PeerLink>>& peers,
    const RendezvousOptions& options) {
  std::vector<std::future<PeerNumbers>> workers;
  for (std::uint32_t i = 0; i < peers.size(); ++i)
    workers.push_back(std::async(std::launch::async, [&, i] {
      return talk(rendezvous.address(), i + 1, peers[i], options);
    }));
  const std::vector<Link> links = rendezvous.accept_workers();
  std::vector<PeerNumbers> heard;
  for (auto& worker : workers) heard.push_back(worker.get());
  return heard;
}

class RendezvousOver : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Transports, RendezvousOver,
                         testing::Values("unix", "tls", "shared_memory"),
                         [](const auto& test) { return test.param; });

TEST_P(RendezvousOver, LinksEachOfFourWithAllOthers) {
  IoThread io;
  RendezvousOptions options = options_of(4);
  options.transport = GetParam();
  Rendezvous rendezvous(io, options);
  // In no order; each pair has capacities of its own.
  const std::vector<std::vector<PeerLink>> peers = {
      {{4, {4, 1}}, {2, {2, 1}}, {3, {3, 1}}},
      {{1, {2, 1}}, {4, {4, 2}}, {3, {3, 2}}},
      {{2, {3, 2}}, {1, {3, 1}}, {4, {4, 3}}},
      {{3, {4, 3}}, {2, {4, 2}}, {1, {4, 1}}}};
  EXPECT_THAT(talk_all(rendezvous, peers, options),
              ElementsAre(ElementsAre(Pair(2, 21), Pair(3, 31), Pair(4, 41)),
                          ElementsAre(Pair(1, 12), Pair(3, 32), Pair(4, 42)),
                          ElementsAre(Pair(1, 13), Pair(2, 23), Pair(4, 43)),
                          ElementsAre(Pair(1, 14), Pair(2, 24), Pair(3, 34))));
}

TEST(Rendezvous, LinksAChainWithAGap) {
  IoThread io;
  const RendezvousOptions options = options_of(4);
  Rendezvous rendezvous(io, options);
  const fs::path folder = fs::path(rendezvous.address()).parent_path();
  EXPECT_THAT(talk_all(rendezvous, {{{2}}, {{1}}, {{4}}, {{3}}}, options),
              ElementsAre(ElementsAre(Pair(2, 21)), ElementsAre(Pair(1, 12)),
                          ElementsAre(Pair(4, 43)), ElementsAre(Pair(3, 34))));
  EXPECT_TRUE(fs::exists(folder / "b2"));
  EXPECT_FALSE(fs::exists(folder / "b3"));  // no peer calls it
}

// The error of a worker that has these peers.
std::string why_not(const Rendezvous& rendezvous, std::uint32_t block,
                    const std::vector<PeerLink>& peers,
                    const RendezvousOptions& options) {
  try {
    talk(rendezvous.address(), block, peers, options);
  } catch (const LinkError& error) {
    return error.what();
  }
  return "";
}

TEST(Rendezvous, FailsWhereALowerPeerDoesNotCall) {
  IoThread io;
  RendezvousOptions options = options_of(2);
  Rendezvous rendezvous(io, options);
  options.patience = 1s;
  auto one = std::async(std::launch::async, talk, rendezvous.address(), 1,
                        std::vector<PeerLink>{}, options);
  auto two = std::async(std::launch::async,
                        [&] { return why_not(rendezvous, 2, {{1}}, options); });
  const std::vector<Link> links = rendezvous.accept_workers();
  EXPECT_THAT(one.get(), IsEmpty());
  EXPECT_THAT(two.get(), HasSubstr("block 1 did not come in time"));
}

TEST(Rendezvous, FailsWhereAHigherPeerListensNowhere) {
  IoThread io;
  const RendezvousOptions options = options_of(2);
  Rendezvous rendezvous(io, options);
  auto two = std::async(std::launch::async, talk, rendezvous.address(), 2,
                        std::vector<PeerLink>{}, options);
  auto one = std::async(std::launch::async,
                        [&] { return why_not(rendezvous, 1, {{2}}, options); });
  const std::vector<Link> links = rendezvous.accept_workers();
  EXPECT_THAT(one.get(), HasSubstr("block 2, which listens nowhere"));
  EXPECT_THAT(two.get(), IsEmpty());
}

TEST(Rendezvous, FailsWhereAHigherPeerListensToOthersOnly) {
  IoThread io;
  const RendezvousOptions options = options_of(3);
  Rendezvous rendezvous(io, options);
  auto one = std::async(std::launch::async,
                        [&] { return why_not(rendezvous, 1, {{3}}, options); });
  auto two = std::async(std::launch::async, talk, rendezvous.address(), 2,
                        std::vector<PeerLink>{{3}}, options);
  auto three = std::async(std::launch::async, talk, rendezvous.address(), 3,
                          std::vector<PeerLink>{{2}}, options);
  const std::vector<Link> links = rendezvous.accept_workers();
  EXPECT_THAT(one.get(), HasSubstr("block 1 called block 3: "));
  EXPECT_THAT(two.get(), ElementsAre(Pair(3, 32)));
  EXPECT_THAT(three.get(), ElementsAre(Pair(2, 23)));
}

TEST(Rendezvous, RefusesCapacitiesThatDisagreeBetweenPeers) {
  IoThread io;
  const RendezvousOptions options = options_of(2);
  Rendezvous rendezvous(io, options);
  auto one = std::async(std::launch::async, [&] {
    return why_not(rendezvous, 1, {{2, {.up = 1, .down = 3}}}, options);
  });
  auto two = std::async(std::launch::async, [&] {
    return why_not(rendezvous, 2, {{1, {.up = 3, .down = 1}}}, options);
  });
  const std::vector<Link> links = rendezvous.accept_workers();
  EXPECT_THAT(one.get(), HasSubstr("block 1 called block 2: "));
  EXPECT_THAT(two.get(), HasSubstr("disagree on their link"));
}

TEST(Rendezvous, WantsPeersThatCanBe) {
  IoThread io;
  const auto with = [&](const std::vector<PeerLink>& peers) {
    join(io, "/nowhere/launcher", 1, peers, options_of(2));
  };
  EXPECT_THROW(with({{0}}), InternalError);
  EXPECT_THROW(with({{1}}), InternalError);
  EXPECT_THROW(with({{3}}), InternalError);
  EXPECT_THROW(with({{2}, {2}}), InternalError);
}

TEST(Rendezvous, WorksOverTcp) {
  IoThread io;
  RendezvousOptions options = options_of(2);
  options.transport = "tcp";
  Rendezvous rendezvous(io, options);
  const auto work = [&](std::uint32_t block) {
    IoThread worker;
    return join(worker, rendezvous.address(), block, chain_peers(block, 2),
                options)
               .control.sender != nullptr;
  };
  auto two = std::async(std::launch::async, work, 2);
  auto one = std::async(std::launch::async, work, 1);
  EXPECT_EQ(rendezvous.accept_workers().size(), 2u);
  EXPECT_TRUE(one.get());
  EXPECT_TRUE(two.get());
}

TEST(Rendezvous, MakesLinksThatReconnect) {
  IoThread io;
  const TestFolder folder;
  RendezvousOptions options = options_of(1);
  options.reconnect = 60s;
  Rendezvous rendezvous(io, options);
  FaultProxy proxy("unix", {.folder = folder.path(), .name = "proxy"},
                   rendezvous.address());
  auto accepted = std::async(std::launch::async,
                             [&] { return rendezvous.accept_workers(); });
  Seat worker;
  worker.links = join(worker.io, proxy.address(), 1, {}, options);
  const std::vector<Link> links = accepted.get();
  proxy.cut();
  while (proxy.connections() < 2) std::this_thread::yield();
  worker.links.control.sender->send({.batch = 1});
  EXPECT_EQ(links[0].receiver->receive()->batch, 1);
}

TEST(Rendezvous, ControlLinksStandInTheOrderOfTheBlocks) {
  IoThread io;
  const RendezvousOptions options = options_of(2);
  Rendezvous rendezvous(io, options);
  const auto work = [&](std::uint32_t block) {
    Seat worker;
    worker.links = join(worker.io, rendezvous.address(), block,
                        chain_peers(block, 2), options);
    worker.links.control.sender->send({.batch = block});
    worker.links.control.sender->close();
  };
  auto two = std::async(std::launch::async, work, 2);
  auto one = std::async(std::launch::async, work, 1);
  const std::vector<Link> links = rendezvous.accept_workers();
  EXPECT_EQ(links[0].receiver->receive()->batch, 1);
  EXPECT_EQ(links[1].receiver->receive()->batch, 2);
}

TEST(Rendezvous, GivesUpWhenTheCheckThrows) {
  IoThread io;
  RendezvousOptions options = options_of(1);
  options.check = [] { throw LinkError("block 1 exited with code 3"); };
  Rendezvous rendezvous(io, options);
  EXPECT_THAT([&] { rendezvous.accept_workers(); },
              ThrowsMessage<LinkError>(HasSubstr("exited with code 3")));
}

TEST(Rendezvous, SaysWhoDidNotCome) {
  IoThread io;
  RendezvousOptions options = options_of(1);
  options.patience = 20ms;
  Rendezvous rendezvous(io, options);
  EXPECT_THAT(
      [&] { rendezvous.accept_workers(); },
      ThrowsMessage<LinkError>(HasSubstr("block 1 did not come in time")));
}

TEST(Rendezvous, RefusesAWorkerOfAnotherRun) {
  IoThread io;
  Rendezvous rendezvous(io, options_of(1));
  auto joined = std::async(std::launch::async, [&] {
    IoThread worker;
    EXPECT_THROW(join(worker, rendezvous.address(), 1, {}, options_of(2)),
                 LinkError);
  });
  EXPECT_THAT(
      [&] { rendezvous.accept_workers(); },
      ThrowsMessage<LinkError>(AllOf(HasSubstr("the launcher belongs to a run "
                                               "of 1 blocks"),
                                     HasSubstr("block 1 to one of 2"))));
}

// A process of the run that failed before it could take part.
TEST(Rendezvous, EndsWithTheReasonOfACallerThatHasEnded) {
  IoThread io;
  RendezvousOptions options = options_of(2);
  options.judge = [](std::uint32_t /*block*/, const std::string& run) {
    return run == "terms" ? "" : "block 2 gave no terms";
  };
  Rendezvous rendezvous(io, options);
  Meeting first(io, transport_of("unix"),
                {.identity = {.secret = test_secret(), .from = 1}});
  first.call(rendezvous.address(),
             {.from = 1, .to = 0, .blocks = 2, .run = "terms"});
  while (rendezvous.awaited().front() == 1) std::this_thread::yield();
  Meeting ended(io, transport_of("unix"),
                {.identity = {.secret = test_secret(), .from = 2}});
  ended.call(rendezvous.address(),
             {.from = 2, .to = 0, .refusal = "block 2 has ended: no GPU"});
  const auto why =
      ThrowsMessage<Disagreement>(HasSubstr("block 2 has ended: no GPU"));
  const auto end = std::chrono::steady_clock::now() + 60s;
  EXPECT_THAT([&] { rendezvous.accept_workers(); }, why);
  EXPECT_THAT([&] { first.wait_for(0, end); }, why);
  EXPECT_THAT([&] { ended.wait_for(0, end); }, why);
  EXPECT_THAT(rendezvous.awaited(), IsEmpty());
}

TEST(Rendezvous, RefusesCapacitiesThatDisagree) {
  IoThread io;
  RendezvousOptions options = options_of(1);
  options.control = {.up = 4, .down = 2};
  Rendezvous rendezvous(io, options);
  options.control = {.up = 4, .down = 3};
  auto joined = std::async(std::launch::async, [&] {
    IoThread worker;
    EXPECT_THROW(join(worker, rendezvous.address(), 1, {}, options), LinkError);
  });
  EXPECT_THAT([&] { rendezvous.accept_workers(); },
              ThrowsMessage<LinkError>(HasSubstr("disagree on their link")));
}

TEST(Rendezvous, IsNotDisturbedByAStranger) {
  IoThread io;
  Rendezvous rendezvous(io, options_of(1));
  boost::asio::io_context context;
  boost::asio::local::stream_protocol::socket stranger(context);
  stranger.connect(
      boost::asio::local::stream_protocol::endpoint(rendezvous.address()));
  stranger.send(boost::asio::buffer(std::string(64, '?')));
  auto accepted = std::async(std::launch::async,
                             [&] { return rendezvous.accept_workers(); });
  Seat worker;
  worker.links = join(worker.io, rendezvous.address(), 1, {}, options_of(1));
  EXPECT_EQ(accepted.get().size(), 1u);
}

TEST(Rendezvous, RefusesAWorkerThatWasGivenAnotherSecret) {
  IoThread io;
  RendezvousOptions options = options_of(1);
  options.patience = 100ms;
  Rendezvous rendezvous(io, options);
  auto joined = std::async(std::launch::async, [&] {
    IoThread worker;
    EXPECT_THAT(
        [&] {
          join(worker, rendezvous.address(), 1, {}, {.secret = other_secret()});
        },
        ThrowsMessage<LinkError>(HasSubstr("does not hold this run's secret")));
  });
  EXPECT_THAT([&] { rendezvous.accept_workers(); },
              ThrowsMessage<LinkError>(HasSubstr("1 connection was refused")));
}

TEST(Rendezvous, WithoutAnyListenerFails) {
  IoThread io;
  EXPECT_THAT(
      [&] { join(io, "/nowhere/launcher", 1, {}, options_of(1)); },
      ThrowsMessage<LinkError>(HasSubstr("can't connect to '/nowhere")));
}

TEST(Rendezvous, KeepsItsSocketsInAPrivateFolder) {
  IoThread io;
  const Rendezvous rendezvous(io, options_of(1));
  const fs::path folder = fs::path(rendezvous.address()).parent_path();
  EXPECT_EQ(fs::status(folder).permissions(), fs::perms::owner_all);
}

TEST(Rendezvous, LeavesNoFileBehind) {
  IoThread io;
  fs::path folder;
  {
    RendezvousOptions options = options_of(2);
    options.patience = 50ms;
    Rendezvous rendezvous(io, options);
    folder = fs::path(rendezvous.address()).parent_path();
    IoThread worker;
    EXPECT_THROW(
        join(worker, rendezvous.address(), 2, chain_peers(2, 2), options),
        LinkError);
    EXPECT_TRUE(fs::exists(folder / "b2"));
  }
  EXPECT_FALSE(fs::exists(folder));
}

}  // namespace sluice::rendezvous_test
