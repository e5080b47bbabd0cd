#include "transport/rendezvous.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "lib/base/error.h"
#include "transport/hello.h"
#include "transport/transports.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

// Longer waits overflow the clock.
constexpr Deadline kLongest = std::chrono::hours(8760);

Clock::time_point end_of(Deadline patience) {
  return Clock::now() + std::min(patience, kLongest);
}

// mkdtemp gives it the mode 0700.
std::string make_folder() {
  std::string folder = std::filesystem::temp_directory_path() / "sluice-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) {
    throw UserError("can't make the folder '{}': {}", folder,
                    std::generic_category().message(errno));
  }
  return folder;
}

LinkOptions link_options(const Hello& mine, const RendezvousOptions& options) {
  return {.here = block_name(mine.from),
          .there = block_name(mine.to),
          .capacity_send = mine.capacity_send,
          .capacity_receive = mine.capacity_receive,
          .deadline = options.deadline,
          .limits = options.limits,
          .buffers = options.buffers};
}

// Links of those who called: their hello was written already.
Link caller_link(IoThread& io, Guest guest, const Hello& mine,
                 const RendezvousOptions& options) {
  return transport_of(options.transport)
      .open(io, std::move(guest.socket), link_options(mine, options), {});
}

// Links of those who were called: their answer is still to be written.
Link called_link(IoThread& io, Guest guest, const Hello& mine,
                 const RendezvousOptions& options) {
  check_agreement(mine, guest.hello);
  return transport_of(options.transport)
      .open(io, std::move(guest.socket), link_options(mine, options),
            encode_hello(mine));
}

std::string address_of(const Guest& guest) {
  if (guest.hello.addresses.size() != 1) {
    throw LinkError("{} gave {} addresses of its own instead of one",
                    block_name(guest.hello.from), guest.hello.addresses.size());
  }
  return guest.hello.addresses.front();
}

}  // namespace

Rendezvous::Rendezvous(IoThread& io, RendezvousOptions options)
    : io_(io),
      options_(std::move(options)),
      meeting_(io, transport_of(options_.transport)),
      folder_(make_folder()) {
  try {
    address_ = meeting_.listen(folder_, "launcher");
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
    throw;
  }
}

Rendezvous::~Rendezvous() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::vector<Link> Rendezvous::accept_workers() {
  const Clock::time_point until = end_of(options_.patience);
  std::vector<Guest> guests;
  Hello mine{.blocks = options_.blocks,
             .capacity_send = options_.control.down,
             .capacity_receive = options_.control.up};
  for (std::uint32_t block = 1; block <= options_.blocks; ++block) {
    guests.push_back(meeting_.wait_for(block, until, options_.check));
    mine.addresses.push_back(address_of(guests.back()));
  }
  std::vector<Link> links;
  for (Guest& guest : guests) {
    mine.to = guest.hello.from;
    links.push_back(called_link(io_, std::move(guest), mine, options_));
  }
  return links;
}

Neighbours join(IoThread& io, const std::string& address, std::uint32_t block,
                Capacity below, Capacity above, RendezvousOptions options) {
  SLUICE_CHECK(block >= 1 && block <= options.blocks, "block {} of {}", block,
               options.blocks);
  const Clock::time_point until = end_of(options.patience);
  Meeting meeting(io, transport_of(options.transport));
  std::string own;  // block 1 has nobody below
  if (block > 1) {
    own = meeting.listen(std::filesystem::path(address).parent_path(),
                         fmt::format("b{}", block));
  }
  Neighbours links;

  const Hello to_launcher{.from = block,
                          .to = 0,
                          .blocks = options.blocks,
                          .capacity_send = options.control.up,
                          .capacity_receive = options.control.down,
                          .addresses = {own}};
  meeting.call(address, to_launcher);
  Guest launcher = meeting.wait_for(0, until, options.check);
  const std::vector<std::string> addresses = launcher.hello.addresses;
  if (addresses.size() != options.blocks) {
    throw LinkError("the launcher gave the addresses of {} blocks, not of {}",
                    addresses.size(), options.blocks);
  }
  links.control = caller_link(io, std::move(launcher), to_launcher, options);

  const Hello to_above{.from = block,
                       .to = block + 1,
                       .blocks = options.blocks,
                       .capacity_send = above.up,
                       .capacity_receive = above.down};
  if (block < options.blocks) meeting.call(addresses[block], to_above);
  if (block > 1) {
    const Hello to_below{.from = block,
                         .to = block - 1,
                         .blocks = options.blocks,
                         .capacity_send = below.down,
                         .capacity_receive = below.up};
    links.below =
        called_link(io, meeting.wait_for(block - 1, until, options.check),
                    to_below, options);
  }
  if (block < options.blocks) {
    links.above =
        caller_link(io, meeting.wait_for(block + 1, until, options.check),
                    to_above, options);
  }
  return links;
}

}  // namespace sluice
