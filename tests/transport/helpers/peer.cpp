// A worker process for the tests: joins a rendezvous and does what its
// arguments say.
//   peer relay ADDRESS BLOCK BLOCKS [MARK]
//       passes messages up and down; with the mark of a host over TLS, but over
//       shared memory to peers of the same mark
//   peer die_waited_for ADDRESS      one block; kills itself at a message
//   peer die_unread ADDRESS          the same, but leaves the message unread
#include <csignal>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "lib/base/error.h"
#include "tests/transport/peer_chain.h"
#include "tests/transport/test_secret.h"
#include "transport/meeting/rendezvous.h"
#include "transport/shared/shared_memory.h"

namespace {

using namespace sluice;

constexpr int kBatches = 20;

// Block 1 makes messages; each block above adds one tensor; the last one turns
// them round as gradients. Block 1 reports how many tensors came back, and as
// the round whether they came through memory that it shares with block 2.
void relay(JoinedLinks& links, std::uint32_t block, std::uint32_t blocks) {
  Link* const below = block > 1 ? &links.peers.at(block - 1) : nullptr;
  Link* const above = block < blocks ? &links.peers.at(block + 1) : nullptr;
  for (int batch = 0; batch < kBatches; ++batch) {
    Message message{.batch = batch};
    if (below) message = *below->receiver->receive();
    message.tensors.push_back({.name = "h",
                               .sizes = {1000},
                               .strides = {1},
                               .buffer = allocate_buffer(4000)});
    if (above) {
      above->sender->send(std::move(message));
      message = *above->receiver->receive();
    }
    message.kind = MessageKind::gradient;
    if (below) {
      below->sender->send(std::move(message));
    } else {
      message.kind = MessageKind::record;
      message.round = above && copied_bytes(*above->receiver) > 0 ? 1 : 0;
      links.control.sender->send(std::move(message));
    }
  }
  links.control.sender->close();
}

int run(int argc, char** argv) {
  if (argc < 3) throw UserError("peer MODE ADDRESS [BLOCK BLOCKS]");
  const std::string mode = argv[1];
  const std::uint32_t block = argc > 3 ? std::atoi(argv[3]) : 1;
  const std::uint32_t blocks = argc > 4 ? std::atoi(argv[4]) : 1;
  RendezvousOptions options = {.blocks = blocks, .secret = test_secret()};
  if (argc > 5) {
    options.transport = "tls";
    options.near = "shared_memory";
    options.mark = argv[5];
  }
  IoThread io;
  JoinedLinks links =
      join(io, argv[2], block, chain_peers(block, blocks), std::move(options));
  if (mode == "relay") {
    relay(links, block, blocks);
  } else if (mode == "die_waited_for") {
    links.control.receiver->receive();
    std::raise(SIGKILL);
  } else if (mode == "die_unread") {
    while (!links.control.receiver->ready()) std::this_thread::yield();
    std::raise(SIGKILL);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "peer: {}\n", error.what());
    return 1;
  }
}
