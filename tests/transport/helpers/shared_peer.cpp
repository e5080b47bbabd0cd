// A process for the tests of links over shared memory, which is killed or
// outlives the one that is.
//   shared_peer launch ROLE            prints the address, then does its role
//   shared_peer join ROLE ADDRESS      joins and does its role
// Roles: `send` sends for ever; `receive` receives for ever; `hold` receives
// one message and keeps it. Says "going" when it has done so once, and exits
// with 3 when its link fails.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "lib/base/error.h"
#include "tests/transport/test_secret.h"
#include "transport/meeting/rendezvous.h"
#include "transport/shared/shared_memory.h"

namespace {

using namespace sluice;

constexpr int kLinkFailed = 3;
// Several times the ring, so that a kill falls into a message.
constexpr std::int64_t kBytes = 5'000'000;

RendezvousOptions options() {
  RendezvousOptions options{.control = {.up = 2, .down = 2},
                            .transport = "shared_memory"};
  options.secret = test_secret();
  options.shared_memory.slots = 2;
  options.shared_memory.slot_bytes = kBytes;
  return options;
}

void say(const std::string& text) {
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

void send_one(Link& link, const BufferSource& source) {
  Message message;
  message.tensors.push_back({.name = "h",
                             .dtype = DType::uint8,
                             .sizes = {kBytes},
                             .strides = {1},
                             .buffer = source(kBytes)});
  link.sender->send(std::move(message));
}

[[noreturn]] void play(Link& link, const std::string& role) {
  std::optional<Message> held;
  for (bool is_first = true;; is_first = false) {
    if (role == "send") {
      send_one(link, is_first ? slots_of(*link.sender) : allocate_buffer);
    } else {
      held = link.receiver->receive();
    }
    if (is_first) say("going");
    if (role == "hold") std::this_thread::sleep_for(std::chrono::hours(1));
  }
}

int run(int argc, char** argv) {
  if (argc < 3) throw UserError("shared_peer launch|join ROLE [ADDRESS]");
  IoThread io;
  Link link;
  if (std::string(argv[1]) == "launch") {
    Rendezvous rendezvous(io, options());
    say(rendezvous.address());
    link = std::move(rendezvous.accept_workers().front());
  } else {
    link = std::move(join(io, argv[3], 1, {}, options()).control);
  }
  play(link, argv[2]);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const LinkError& error) {
    fmt::print("{}\n", error.what());
    return kLinkFailed;
  } catch (const std::exception& error) {
    fmt::print(stderr, "shared_peer: {}\n", error.what());
    return 1;
  }
}
