// Workers of one host linked over another transport than those of several.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/base/files/temporary_folder.h"
#include "tests/transport/peer_chain.h"
#include "tests/transport/test_secret.h"
#include "transport/links/io_thread.h"
#include "transport/meeting/host_mark.h"
#include "transport/meeting/rendezvous.h"
#include "transport/meeting/whereabouts.h"
#include "transport/shared/shared_memory.h"

namespace sluice::near_links_test {

using testing::_;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::ThrowsMessage;
namespace fs = std::filesystem;

RendezvousOptions options_of(std::uint32_t blocks,
                             const std::string& mark = "") {
  RendezvousOptions options = {.blocks = blocks, .secret = test_secret()};
  options.transport = "tls";
  options.near = "shared_memory";
  options.mark = mark;
  return options;
}

/// What a worker knows of its peers when each has told it a number, and
/// whether that came through shared memory.
struct PeerKnowledge {
  std::map<std::uint32_t, std::string> transports = {};
  std::map<std::uint32_t, std::int64_t> heard = {};
  std::map<std::uint32_t, bool> shares = {};
};

PeerKnowledge talk(const std::string& address, std::uint32_t block,
                   const std::vector<PeerLink>& peers,
                   const RendezvousOptions& options) {
  IoThread io;
  JoinedLinks joined = join(io, address, block, peers, options);
  PeerKnowledge known;
  known.transports = joined.transports;
  for (auto& [peer, link] : joined.peers) {
    Message message{.batch = 10 * block + peer};
    message.tensors.push_back({.name = "h",
                               .sizes = {1000},
                               .strides = {1},
                               .buffer = allocate_buffer(4000)});
    link.sender->send(std::move(message));
    link.sender->close();
  }
  for (auto& [peer, link] : joined.peers) {
    known.heard[peer] = link.receiver->receive()->batch;
    EXPECT_FALSE(link.receiver->receive().has_value());
    known.shares[peer] = copied_bytes(*link.receiver) > 0;
  }
  return known;
}

/// Workers with the marks of these hosts, each linked with all others.
std::vector<PeerKnowledge> talk_on(const std::vector<std::string>& marks) {
  const auto blocks = static_cast<std::uint32_t>(marks.size());
  IoThread io;
  Rendezvous rendezvous(io, options_of(blocks));
  std::vector<std::future<PeerKnowledge>> workers;
  for (std::uint32_t block = 1; block <= blocks; ++block)
    workers.push_back(std::async(std::launch::async, [&, block] {
      std::vector<PeerLink> peers;
      for (std::uint32_t peer = 1; peer <= blocks; ++peer)
        if (peer != block) peers.push_back({.peer = peer});
      return talk(rendezvous.address(), block, peers,
                  options_of(blocks, marks.at(block - 1)));
    }));
  const std::vector<Link> links = rendezvous.accept_workers();
  EXPECT_EQ(rendezvous.marks(), marks);
  std::vector<PeerKnowledge> all;
  for (auto& worker : workers) all.push_back(worker.get());
  return all;
}

TEST(NearLinks, ShareMemoryWhereMarksAreEqualAndAreEncryptedWhereNot) {
  const std::vector<PeerKnowledge> all = talk_on({"a", "a", "b"});
  EXPECT_THAT(all[0].transports,
              ElementsAre(Pair(2, "shared_memory"), Pair(3, "tls")));
  EXPECT_THAT(all[1].transports,
              ElementsAre(Pair(1, "shared_memory"), Pair(3, "tls")));
  EXPECT_THAT(all[2].transports, ElementsAre(Pair(1, "tls"), Pair(2, "tls")));
  // What the links say of themselves.
  EXPECT_THAT(all[0].shares, ElementsAre(Pair(2, true), Pair(3, false)));
  EXPECT_THAT(all[1].shares, ElementsAre(Pair(1, true), Pair(3, false)));
  EXPECT_THAT(all[2].shares, ElementsAre(Pair(1, false), Pair(2, false)));
  EXPECT_THAT(all[0].heard, ElementsAre(Pair(2, 21), Pair(3, 31)));
  EXPECT_THAT(all[1].heard, ElementsAre(Pair(1, 12), Pair(3, 32)));
  EXPECT_THAT(all[2].heard, ElementsAre(Pair(1, 13), Pair(2, 23)));
}

TEST(NearLinks, GoByHostsAndNotByTheOrderOfBlocks) {
  const std::vector<PeerKnowledge> all = talk_on({"a", "b", "a", "b"});
  EXPECT_THAT(all[0].shares,
              ElementsAre(Pair(2, false), Pair(3, true), Pair(4, false)));
  EXPECT_THAT(all[3].shares,
              ElementsAre(Pair(1, false), Pair(2, true), Pair(3, false)));
}

TEST(NearLinks, AreNoneWithoutAMark) {
  for (const PeerKnowledge& known : talk_on({"", ""}))
    EXPECT_THAT(known.transports, ElementsAre(Pair(_, "tls")));
}

TEST(NearLinks, DoNotReconnectBesideThoseThatDo) {
  IoThread io;
  RendezvousOptions options = options_of(3);
  options.reconnect = std::chrono::seconds(5);
  Rendezvous rendezvous(io, options);
  const auto worker = [&](std::uint32_t block, const char* mark) {
    RendezvousOptions its = options;
    its.mark = mark;
    return std::async(std::launch::async, talk, rendezvous.address(), block,
                      chain_peers(block, 3), its);
  };
  auto one = worker(1, "a");
  auto two = worker(2, "a");
  auto three = worker(3, "b");
  rendezvous.accept_workers();  // whose links end
  EXPECT_THAT(one.get().heard, ElementsAre(Pair(2, 21)));
  EXPECT_THAT(two.get().shares, ElementsAre(Pair(1, true), Pair(3, false)));
  EXPECT_THAT(three.get().heard, ElementsAre(Pair(2, 23)));
}

TEST(NearLinks, LeaveNoSocketBehind) {
  const TemporaryFolder root;
  ::setenv("TMPDIR", root.path().c_str(), 1);
  const std::vector<PeerKnowledge> all = talk_on({"a", "a", "a"});
  ::unsetenv("TMPDIR");
  EXPECT_THAT(all[2].shares, ElementsAre(Pair(1, true), Pair(2, true)));
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(root.path()))
    if (entry.is_directory()) left.push_back(entry.path().string());
  EXPECT_THAT(left, IsEmpty());
}

TEST(NearLinks, AreRefusedToWorkersThatKnowNothingOfThem) {
  IoThread io;
  Rendezvous rendezvous(io, options_of(1));
  auto worker = std::async(std::launch::async, [&] {
    IoThread its;
    RendezvousOptions options = options_of(1);
    options.near = "";
    EXPECT_THROW(join(its, rendezvous.address(), 1, {}, options), LinkError);
  });
  EXPECT_THAT([&] { rendezvous.accept_workers(); },
              ThrowsMessage<LinkError>(
                  HasSubstr("block 1 gave 1 addresses instead of 3")));
}

// Processes.

pid_t start_relay(const std::string& address, std::size_t block,
                  const std::vector<std::string>& marks) {
  std::vector<std::string> arguments = {SLUICE_TEST_PEER,
                                        "relay",
                                        address,
                                        std::to_string(block),
                                        std::to_string(marks.size()),
                                        marks.at(block - 1)};
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_t pid = -1;
  EXPECT_EQ(::posix_spawn(&pid, SLUICE_TEST_PEER, nullptr, nullptr, argv.data(),
                          environ),
            0);
  return pid;
}

/// Whether what came back to block 1 came through shared memory: 0 or 1, the
/// same for all of 20 batches.
std::int64_t relayed_in_memory(const std::vector<std::string>& marks) {
  IoThread io;
  Rendezvous rendezvous(io,
                        options_of(static_cast<std::uint32_t>(marks.size())));
  std::vector<pid_t> pids;
  for (std::size_t block = 1; block <= marks.size(); ++block)
    pids.push_back(start_relay(rendezvous.address(), block, marks));
  std::vector<Link> links = rendezvous.accept_workers();
  std::vector<std::int64_t> rounds;
  while (auto message = links[0].receiver->receive()) {
    EXPECT_EQ(message->tensors.size(), marks.size());
    rounds.push_back(message->round);
  }
  for (const pid_t pid : pids) {
    int status = -1;
    ::waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(rounds.size(), 20u);
  if (rounds.empty()) return -1;
  EXPECT_THAT(rounds, Each(rounds.front()));
  return rounds.front();
}

TEST(NearProcesses, PassMessagesInMemoryToTheOneAndEncryptedToTheOther) {
  EXPECT_EQ(relayed_in_memory({"a", "a", "b"}), 1);
  EXPECT_EQ(relayed_in_memory({"a", "b", "b"}), 0);
}

TEST(HostMark, IsThatOfAllProcessesOfAHostThatNothingSetsApart) {
  EXPECT_EQ(host_mark(), host_mark());
  EXPECT_EQ(host_mark("left"), host_mark("left"));
  EXPECT_NE(host_mark("left"), host_mark("right"));
  EXPECT_NE(host_mark("left"), host_mark());
}

TEST(HostMark, HasRoomInAHello) {
  EXPECT_LT(host_mark(std::string(64, 'x')).size(), 256u);
  EXPECT_THROW(host_mark(std::string(65, 'x')), UserError);
}

TEST(Whereabouts, ComeBackFromTheirTexts) {
  const Whereabouts mine{.address = "1.2.3.4:5", .near = "/t/b2", .mark = "m"};
  const auto back = whereabouts_from(to_texts(mine, true), 1, true, 2);
  ASSERT_EQ(back.size(), 1u);
  EXPECT_EQ(back[0].address, mine.address);
  EXPECT_EQ(back[0].near, mine.near);
  EXPECT_EQ(back[0].mark, mine.mark);
  const auto plain = whereabouts_from(to_texts(mine, false), 1, false, 2);
  EXPECT_EQ(plain.at(0).address, mine.address);
  EXPECT_EQ(plain.at(0).mark, "");
}

TEST(Whereabouts, AreAsManyAsWorkers) {
  EXPECT_THAT(
      [] {
        whereabouts_from({"a", "b"}, 3, false, 0);
      },
      ThrowsMessage<LinkError>(HasSubstr(
          "the launcher gave 2 addresses instead of 3 for 3 blocks")));
  EXPECT_THROW(whereabouts_from({"a", "b"}, 1, true, 0), LinkError);
}

}  // namespace sluice::near_links_test
