#include "lib/replicas/centre/centre_host.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <ATen/Parallel.h>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/base/messages/memory_channel.h"

namespace sluice {
namespace {

/// Length of a wait: all that may happen rings the bell, so it needs no end.
constexpr std::chrono::minutes kLongWaitForMembers(1);

/// The setup, where replicas without a link aren't there.
CentreSetup with_absent(CentreSetup setup, const std::vector<Link>& links) {
  for (int member = 1; member <= std::ssize(links); ++member)
    if (!by_block(links, member).receiver) setup.absent.insert(member);
  return setup;
}

}  // namespace

CentreHost::CentreHost(CentreSetup setup, std::vector<Link> links, int threads,
                       std::shared_ptr<MemoryAccount> memory)
    : links_(std::move(links)),
      centre_(with_absent(std::move(setup), links_),
              [this](int member, Message message) {
                answer(member, std::move(message));
              }) {
  for (const Link& link : links_)
    if (link.receiver) link.receiver->ring(bell_);
  thread_ = std::thread(
      [this, threads, memory = std::move(memory)] { serve(threads, memory); });
}

CentreHost::~CentreHost() {
  thread_.join();
}

void CentreHost::serve(int threads,
                       const std::shared_ptr<MemoryAccount>& memory) {
  at::set_num_threads(threads);  // of this thread
  std::optional<MemoryScope> scope;
  if (memory) scope.emplace(*memory);
  while (!is_over()) {
    const std::uint64_t rung = bell_->rung();
    if (!take_some()) wait_since(rung);
  }
}

bool CentreHost::is_over() const {
  return std::all_of(links_.begin(), links_.end(),
                     [](const Link& link) { return !link.receiver; });
}

/// Waits until something comes, or the centre's time has come.
void CentreHost::wait_since(std::uint64_t rung) {
  const auto due = centre_.due();
  if (!due) {
    bell_->wait(rung, kLongWaitForMembers);
    return;
  }
  const auto now = Centre::SteadyTime::clock::now();
  if (now >= *due)
    centre_.come_due();
  else
    bell_->wait(rung, std::chrono::ceil<std::chrono::milliseconds>(*due - now));
}

void CentreHost::admit(int member, std::int64_t life, Link link) {
  note(
      {.member = member, .life = life, .joins = true, .link = std::move(link)});
}

void CentreHost::admit(int member) {
  note({.member = member, .joins = true});
}

void CentreHost::lose(int member, std::int64_t life) {
  note({.member = member, .life = life, .link = Link{}});
}

void CentreHost::leave_out_place() {
  note({.member = 0});
}

void CentreHost::note(Change change) {
  {
    const std::lock_guard lock(mutex_);
    changes_.push_back(std::move(change));
  }
  bell_->ring();
}

void CentreHost::merge_those_who_wait() {
  {
    const std::lock_guard lock(mutex_);
    none_comes_ = true;
  }
  bell_->ring();
}

bool CentreHost::take_changes() {
  std::vector<Change> all;
  bool none_comes = false;
  {
    const std::lock_guard lock(mutex_);
    all = std::exchange(changes_, {});
    none_comes = std::exchange(none_comes_, false);
  }
  for (Change& change : all) take(std::move(change));
  if (none_comes) centre_.merge_those_who_wait();
  return !all.empty();
}

void CentreHost::take(Change change) {
  const int member = change.member;
  if (member == 0) return centre_.leave_out_place();
  const auto lost = lost_lives_.find(member);
  // What is said of its loss overtakes what is said of its coming.
  if (change.joins && lost != lost_lives_.end() && change.life > 0 &&
      lost->second >= change.life)
    return;
  if (!change.joins) lost_lives_[member] = change.life;
  if (change.link) {
    const bool was_there = by_block(links_, member).receiver != nullptr;
    hear_rest(member);
    std::erase(broken_, member);  // the link that ends here
    if (change.link->receiver) change.link->receiver->ring(bell_);
    by_block(links_, member) = *std::move(change.link);
    // The one before may have gone just now.
    if (was_there) centre_.leave(member, change.joins);
  }
  if (change.joins) centre_.admit(member);
}

/// Takes what a replica had said before it was known that it is gone.
void CentreHost::hear_rest(int member) {
  if (in_hand_ && in_hand_->member == member) hear_in_hand();
  try {
    const auto& receiver = by_block(links_, member).receiver;
    while (receiver && receiver->ready()) {
      const std::optional<Message> message = receiver->receive();
      if (!message) return;
      hear(member, *message);
    }
  } catch (const LinkError&) {
    // The end.
  }
}

/// Takes one message of each replica that has sent one.
bool CentreHost::take_some() {
  bool any = take_changes();
  for (int member = 1; member <= centre_.members(); ++member) {
    const Link& link = by_block(links_, member);
    if (!link.receiver || !link.receiver->ready()) continue;
    any = true;
    take(member);
  }
  for (const int member : std::exchange(broken_, {})) {
    by_block(links_, member) = {};
    centre_.leave(member);
  }
  return any;
}

void CentreHost::take(int member) {
  std::optional<Message> message;
  try {
    message = by_block(links_, member).receiver->receive();
  } catch (const LinkError&) {
    // The replica, or its process, says why.
  }
  if (!message) {
    by_block(links_, member) = {};
    return centre_.leave(member);
  }
  in_hand_ = {member, *std::move(message)};
  take_changes();  // what was before that was said
  hear_in_hand();
}

void CentreHost::hear_in_hand() {
  if (!in_hand_) return;
  const auto [member, message] = *std::exchange(in_hand_, std::nullopt);
  hear(member, message);
}

void CentreHost::hear(int member, const Message& message) {
  if (message.round == static_cast<std::int64_t>(CentreMessage::end))
    by_block(links_, member) = {};
  else
    centre_.hear(member, message);
}

void CentreHost::answer(int member, Message message) {
  const Link& link = by_block(links_, member);
  if (!link.sender) return;
  try {
    link.sender->send(std::move(message));
  } catch (const LinkError&) {
    broken_.push_back(member);
  }
}

std::vector<std::unique_ptr<CentreLink>> links_to_centre(
    const CentreSetup& setup, int threads, Deadline deadline,
    std::shared_ptr<MemoryAccount> memory) {
  std::vector<Link> ends;
  std::vector<Link> of_centre;
  for (int member = 1; member <= setup.members; ++member) {
    if (setup.outside.contains(member)) {
      ends.emplace_back();
      of_centre.emplace_back();
      continue;
    }
    auto [mine, its] = memory_link(kCentreCapacity, kCentreCapacity, deadline);
    ends.push_back(std::move(mine));
    of_centre.push_back(std::move(its));
  }
  const auto host = std::make_shared<CentreHost>(setup, std::move(of_centre),
                                                 threads, std::move(memory));
  std::vector<std::unique_ptr<CentreLink>> links;
  for (int member = 1; member <= setup.members; ++member)
    links.push_back(setup.outside.contains(member)
                        ? nullptr
                        : std::make_unique<CentreLink>(
                              std::move(by_block(ends, member)), member,
                              setup.members, setup.name, host));
  return links;
}

}  // namespace sluice
