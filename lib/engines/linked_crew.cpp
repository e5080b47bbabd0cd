#include "lib/engines/linked_crew.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/engines/remote_observer.h"
#include "lib/metrics/records.h"

namespace sluice {
namespace {

/// Length of a wait for threads: all that they do rings the bell, so it needs
/// no end.
constexpr std::chrono::minutes kUnwatched(1);

/// Time between the first and the last sign of one loss: a link that ends, the
/// report of a neighbour, the end of the process.
constexpr std::chrono::milliseconds kSignsCome(500);
/// Time from a kill to the end of the link, at most.
constexpr std::chrono::milliseconds kRestComes(200);
constexpr std::chrono::milliseconds kLook(5);

}  // namespace

LinkedCrew::LinkedCrew(std::vector<Link> links, CrewEvents events,
                       std::size_t ahead, Supervision supervision,
                       const SeatNames& names)
    : events_(std::move(events)),
      supervision_(std::move(supervision)),
      names_(names),
      book_(links.size(), ahead) {
  for (Link& link : links)
    talks_.push_back({.block = static_cast<int>(talks_.size()) + 1,
                      .link = std::move(link)});
  for (WorkerLink& talk : talks_)
    if (talk.link.receiver)
      begin(talk);
    else
      vacate(talk);
  if (supervision_.newcomers) supervision_.newcomers->ring(bell_);
}

void LinkedCrew::begin(WorkerLink& talk) {
  talk.link.receiver->ring(bell_);
  if (supervision_.board == nullptr) return;
  talk.clock.emplace();
  ask_time(talk);
}

/// Counts all grants as carried out by the seat.
void LinkedCrew::vacate(WorkerLink& talk) {
  end(talk);
  book_.leave_out(talk.block);
}

/// Without a word when the worker is gone: what it said before is there to be
/// taken.
void LinkedCrew::send(WorkerLink& talk, Message message) {
  try {
    talk.link.sender->send(std::move(message));
  } catch (const LinkError&) {
  }
}

void LinkedCrew::ask_time(WorkerLink& talk) {
  if (is_failing()) return;  // no more messages to workers
  talk.clock->asks(steady_seconds());
  send(talk, {.kind = MessageKind::clock});
}

void LinkedCrew::send_ahead(WorkerLink& talk) {
  if (!talk.link.sender || talk.clock || is_failing()) return;
  const std::size_t end =
      book_.reached(talk.block) + book_.progress().ahead + 1;
  for (; talk.sent < std::min(book_.given(), end); ++talk.sent) {
    tell_of_newcomer(talk);
    const GrantBook::Entry& next = book_.at(talk.sent);
    Grant grant = next.grant;
    grant.joins = std::exchange(talk.joins, false);
    send(talk, grant_message(
                   grant, batches_of_seat(names_, talk.block, next.batches)));
  }
  tell_of_newcomer(talk);
}

void LinkedCrew::give(const Grant& grant, std::span<const Batch> batches) {
  book_.give(grant, batches);
  for (WorkerLink& talk : talks_) send_ahead(talk);
  pass_over_lost();
}

bool LinkedCrew::has_ended() const {
  return std::all_of(talks_.begin(), talks_.end(), [](const WorkerLink& talk) {
    return !talk.link.receiver;
  });
}

void LinkedCrew::wait() {
  const std::size_t before = book_.all_reached();
  while (is_failing() || book_.all_reached() == before) {
    const std::uint64_t rung = bell_->rung();
    const bool was_told = take_some();
    if (take_newcomers() || was_told) continue;
    if (is_failing() && has_ended()) throw_cause();
    if (book_.all_done()) return;
    // A worker is judged only when no message of it is left to take.
    bell_->wait(rung, supervision_.look ? supervision_.look() : kUnwatched);
  }
}

/// Takes one message of each worker that has sent one.
bool LinkedCrew::take_some() {
  bool any = false;
  for (WorkerLink& talk : talks_) {
    if (!talk.link.receiver || !talk.link.receiver->ready()) continue;
    any = true;
    try {
      take(talk);
    } catch (const std::exception& error) {
      fail(talk, {{talk.block, cause_of(error), text_of(error)},
                  FailureOrigin::at_its_link});
    }
  }
  return any;
}

void LinkedCrew::take(WorkerLink& talk) {
  const std::optional<Message> message = talk.link.receiver->receive();
  if (!message)
    throw PeerGoneError("the worker of {} ended before its work",
                        names_.of(talk.block));
  if (supervision_.board)
    supervision_.board->heard(talk.block,
                              message->kind != MessageKind::progress);
  heard(talk, *message);
}

void LinkedCrew::heard(WorkerLink& talk, const Message& message) {
  if (message.kind == MessageKind::record) {
    if (events_.record) events_.record(record_of(message));
  } else if (message.kind == MessageKind::observation && events_.observer) {
    tell(message, *events_.observer);
  } else if (message.kind == MessageKind::progress && supervision_.board) {
    supervision_.board->progress(talk.block, said_in<Progress>(message));
  } else if (message.kind == MessageKind::reached) {
    reached(talk);
  } else if (message.kind == MessageKind::newcomer) {
    // An answer may be of one before, at the same place.
    const auto missed = said_in<Newcomer>(message);
    if (joining_ && joining_->newcomer.replica == missed.replica &&
        joining_->newcomer.life == missed.life)
      supervision_.newcomers->dismiss();
  } else if (message.kind == MessageKind::clock && talk.clock) {
    const double here = steady_seconds();
    talk.clock->hears(said_in<ClockAnswer>(message).time, here);
    if (!talk.clock->is_over()) return ask_time(talk);
    const ClockOffset& best = talk.clock->best();
    if (events_.record)
      events_.record(
          records::ClockOffset{talk.block, best.offset, best.uncertainty});
    talk.clock.reset();
    send_ahead(talk);
  } else if (message.kind == MessageKind::failure) {
    auto failure = said_in<Failure>(message);
    failure.block = talk.block;
    fail(talk, {std::move(failure)});
  }
}

void LinkedCrew::reached(WorkerLink& talk) {
  const std::size_t n = book_.reach(talk.block);
  if (events_.reached) events_.reached(talk.block, n);
  if (book_.is_over(talk.block))
    end(talk);
  else
    send_ahead(talk);
}

void LinkedCrew::end(WorkerLink& talk) {
  if (supervision_.board) supervision_.board->ended(talk.block);
  if (talk.link.sender) talk.link.sender->close();
  talk.link = {};
}

bool LinkedCrew::can_lose(int block) const {
  return supervision_.survives_loss && !is_failing() &&
         names_.replica_of(block) > 1 && supervision_.board != nullptr &&
         supervision_.board->all_heard();
}

/// Takes a replica out: a worker of it that is still there ends; other workers
/// keep what came from it. Those of replica 1, beside which the centres lie,
/// may not find out by themselves, where it hangs or is cut off.
void LinkedCrew::lose(int replica, const Failure& failure) {
  std::size_t grants = book_.given();
  for (const WorkerLink& talk : talks_)
    if (names_.replica_of(talk.block) == replica && supervision_.on_loss)
      supervision_.on_loss(talk.block);
  for (WorkerLink& talk : talks_) {
    if (names_.replica_of(talk.block) != replica) continue;
    grants = std::min(grants, book_.reached(talk.block));
    take_rest(talk);
    vacate(talk);
  }
  tell_centres({.lost = replica, .life = lives_[replica]});
  if (events_.lost)
    events_.lost(
        {.replica = replica, .grants = grants, .reason = failure.text});
  pass_over_lost();
}

void LinkedCrew::tell_centres(const CentreNotice& notice) {
  for (WorkerLink& talk : talks_)
    if (names_.replica_of(talk.block) == 1 && talk.link.sender)
      send(talk, control_message(MessageKind::centre, notice));
}

/// Counts all grants as carried out by seats that are lost.
void LinkedCrew::pass_over_lost() {
  for (const int seat : book_.left_out())
    while (book_.reached(seat) < book_.given()) {
      const std::size_t n = book_.reach(seat);
      if (events_.reached) events_.reached(seat, n);
    }
}

/// Offers the place of the first replica that isn't there, once all are at work
/// that are, and while there is something left to do.
void LinkedCrew::offer_place() {
  if (offered_ > 0 || is_arriving(arriving_) ||
      !supervision_.board->all_heard() || is_last_given())
    return;
  if (book_.left_out().empty()) return;
  offered_ = names_.replica_of(*book_.left_out().begin());
  supervision_.newcomers->offer(offered_);
}

/// Whether the replica still makes its links: it hasn't told the time yet.
bool LinkedCrew::is_arriving(int replica) const {
  return std::any_of(talks_.begin(), talks_.end(), [&](const WorkerLink& talk) {
    return names_.replica_of(talk.block) == replica && talk.clock &&
           talk.link.receiver;
  });
}

bool LinkedCrew::is_last_given() const {
  return book_.given() > 0 && book_.at(book_.given() - 1).grant.finish;
}

/// Takes what there is to know of replicas that join; returns whether there was
/// something.
bool LinkedCrew::take_newcomers() {
  if (!supervision_.newcomers || is_failing()) return false;
  offer_place();
  std::optional<NewcomerNews> news = supervision_.newcomers->next();
  if (!news) return false;
  using Kind = NewcomerNews::Kind;
  const int closed = news->kind == Kind::closed ? news->replica : 0;
  if (news->kind == Kind::calls)
    announce(*news);
  else if (news->kind == Kind::joined && joining_)
    admit(*std::move(news));
  else
    give_newcomer_up();
  if (closed > 0) offered_ = closed;
  return true;
}

/// The next grant is the newcomer's first. Just before it, each worker of
/// replica 1 makes its link.
void LinkedCrew::announce(const NewcomerNews& news) {
  if (is_last_given()) return;
  joining_ = {.newcomer = {.replica = news.replica,
                           .address = news.address,
                           .life = ++lives_[news.replica]},
              .first_grant = book_.given()};
  for (WorkerLink& talk : talks_) {
    const int replica = names_.replica_of(talk.block);
    if (replica == news.replica) book_.await(talk.block);
    if (replica == 1) tell_of_newcomer(talk);
  }
}

void LinkedCrew::tell_of_newcomer(WorkerLink& talk) {
  if (!joining_ || names_.replica_of(talk.block) != 1 ||
      talk.sent != joining_->first_grant ||
      !joining_->told.insert(talk.block).second)
    return;
  send(talk, control_message(MessageKind::newcomer, joining_->newcomer));
}

void LinkedCrew::admit(NewcomerNews news) {
  const std::size_t first = joining_->first_grant;
  std::size_t block = 0;
  for (WorkerLink& talk : talks_) {
    if (names_.replica_of(talk.block) != news.replica) continue;
    talk = {.block = talk.block,
            .link = std::move(news.links.at(block++)),
            .sent = first,
            .joins = true};
    supervision_.board->joined(talk.block);
    book_.take_in(talk.block);
    begin(talk);
  }
  joining_.reset();
  offered_ = 0;
  arriving_ = news.replica;
  if (events_.joined)
    events_.joined({.replica = news.replica, .first_grant = first});
}

void LinkedCrew::give_newcomer_up() {
  if (joining_)
    for (WorkerLink& talk : talks_)
      if (names_.replica_of(talk.block) == joining_->newcomer.replica)
        vacate(talk);
  joining_.reset();
  offered_ = 0;
  pass_over_lost();
}

/// Whether replica 1 is the cause, which is gone, or hangs: between ranks links
/// have deadlines, and whoever waits for a replica that hangs may give it up a
/// little before the board does.
bool LinkedCrew::missed_first(const Failure& failure) const {
  if (failure.cause == Cause::peer_gone)
    return supervision_.how_ended && signal_of(1).has_value();
  if (failure.cause != Cause::link) return false;
  const auto stalled = supervision_.board->stalled(supervision_.first_stalls);
  return stalled && stalled->block > 0 &&
         names_.replica_of(stalled->block) == 1;
}

void LinkedCrew::fail(WorkerLink& talk, NotedFailure noted) {
  if (noted.failure.cause != Cause::own && can_lose(talk.block) &&
      !missed_first(noted.failure)) {
    const int replica = names_.replica_of(talk.block);
    return lose(replica, cause_of_loss(replica, std::move(noted)));
  }
  const bool is_first = !is_failing();
  failures_.push_back(std::move(noted));
  end(talk);
  if (!is_first) return;
  if (supervision_.on_failure) supervision_.on_failure();
  // Closes senders alone: other workers may finish the turns that they were
  // given.
  for (WorkerLink& other : talks_)
    if (other.link.sender) other.link.sender->close();
}

void LinkedCrew::give_up(int block, Failure failure) {
  WorkerLink& talk = by_block(talks_, block);
  if (talk.link.receiver) fail(talk, {std::move(failure)});
}

void LinkedCrew::give_up_all(const Failure& failure) {
  for (const WorkerLink& talk : talks_) give_up(talk.block, failure);
}

std::optional<std::string> LinkedCrew::signal_of(int replica) const {
  for (const WorkerLink& talk : talks_) {
    if (names_.replica_of(talk.block) != replica) continue;
    if (std::string how = supervision_.how_ended(talk.block); !how.empty())
      return how;
  }
  return std::nullopt;
}

/// Takes of what the worker of a lost replica has said what it has done;
/// returns whether more may come. Throws what its link does.
bool LinkedCrew::take_records(WorkerLink& talk) {
  while (talk.link.receiver->ready()) {
    const auto message = talk.link.receiver->receive();
    if (!message) return false;
    if (message->kind == MessageKind::record && events_.record)
      events_.record(record_of(*message));
  }
  return true;
}

/// Until its link ends, which is soon where its process was killed.
void LinkedCrew::take_rest(WorkerLink& talk) {
  const auto end = std::chrono::steady_clock::now() + kRestComes;
  try {
    while (talk.link.receiver && take_records(talk) &&
           std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(kLook);
  } catch (const LinkError&) {
    // The end.
  }
}

/// Error of a replica's link; nothing while it works.
std::optional<std::string> LinkedCrew::broken_link_of(int replica) {
  for (WorkerLink& talk : talks_) {
    if (names_.replica_of(talk.block) != replica || !talk.link.receiver)
      continue;
    try {
      take_records(talk);
    } catch (const PeerGoneError& error) {
      return text_of(error);
    } catch (const LinkError&) {
    }
  }
  return std::nullopt;
}

/// One text for one loss, whichever sign of it came first: how the process
/// ended; else that its link did; else what another worker of the replica,
/// which has found it gone, reports.
Failure LinkedCrew::cause_of_loss(int replica, NotedFailure noted) {
  Failure& found = noted.failure;
  if (found.cause != Cause::peer_gone) return found;
  const auto end = std::chrono::steady_clock::now() + kSignsCome;
  bool is_its_link = noted.noticed == FailureOrigin::at_its_link;
  while (std::chrono::steady_clock::now() < end) {
    if (supervision_.how_ended) {
      if (auto how = signal_of(replica)) {
        found.text = std::move(*how);
        return found;
      }
    } else if (is_its_link) {
      return found;
    }
    if (!is_its_link)
      if (auto broken = broken_link_of(replica)) {
        found.text = std::move(*broken);
        is_its_link = true;
        continue;
      }
    std::this_thread::sleep_for(kLook);
  }
  return found;
}

/// Where several went for the same kind of cause, a worker whose link ended
/// without a report is the cause: those that report have only found it gone.
void LinkedCrew::throw_cause() {
  const auto rank = [](const NotedFailure& noted) {
    return std::pair(noted.failure.cause, noted.noticed);
  };
  const Failure& first = std::min_element(failures_.begin(), failures_.end(),
                                          [&](const NotedFailure& left,
                                              const NotedFailure& right) {
                                            return rank(left) < rank(right);
                                          })
                             ->failure;
  failed_block_ = first.block;
  throw_failure(first, names_);
}

std::size_t grants_ahead(int blocks) {
  return 4 * static_cast<std::size_t>(blocks);
}

Capacity control_capacity(int blocks) {
  // A turn's train record, lesson and "reached"; some more for heartbeats, and
  // for grants of many turns.
  const std::size_t down = grants_ahead(blocks) + 1;
  return {.up = 4 * down + 64, .down = down};
}

}  // namespace sluice
