#include "lib/engines/control.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>

#include <c10/util/Exception.h>

#include "lib/base/error.h"
#include "lib/engines/remote_witness.h"
#include "lib/metrics/clock_offset.h"

namespace sluice {
namespace {

/// Grants that a worker holds: the one it is at and the next.
constexpr std::size_t kGrantsAhead = 2;

/// While it lives, nobody listens to the block's worker.
class Absence {
 public:
  /// begins: ProgressBoard::rests or is_served.
  Absence(ProgressBoard* board, int block, void (ProgressBoard::*begins)(int))
      : board_(board), block_(block) {
    if (board_ != nullptr) (board_->*begins)(block_);
  }
  ~Absence() {
    if (board_ != nullptr) board_->goes_on(block_);
  }
  Absence(const Absence&) = delete;
  Absence& operator=(const Absence&) = delete;

 private:
  ProgressBoard* board_;
  int block_;
};

/// Asks a worker for its time, one question after another.
class TimeQuestions {
 public:
  /// False when the worker is gone.
  bool ask(Sender& worker) {
    exchange_.asks(steady_seconds());
    try {
      worker.send(clock_question());
    } catch (const LinkError&) {
      return false;
    }
    return true;
  }
  void hear(const Message& answer) {
    const double here = steady_seconds();
    exchange_.hears(record_of(answer).number("time", 0), here);
  }
  bool is_over() const { return exchange_.is_over(); }
  Record record(int block) const { return to_record(exchange_.best(), block); }

 private:
  ClockExchange exchange_;
};

bool flag(const Record& record, std::string_view name) {
  return record.number(name, 0) != 0;
}

}  // namespace

std::string text_of(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  std::string text = torch ? torch->what_without_backtrace() : error.what();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

Cause cause_of(const std::exception& error) {
  if (dynamic_cast<const PeerGone*>(&error) != nullptr) return Cause::peer_gone;
  return dynamic_cast<const LinkError*>(&error) != nullptr ? Cause::link
                                                           : Cause::own;
}

Record to_record(const Failure& failure) {
  Record record;
  record.set("cause", static_cast<std::int64_t>(failure.cause));
  record.set("text", failure.text);
  return record;
}

Failure failure_from(const Record& record, int block) {
  const std::int64_t cause =
      std::clamp<std::int64_t>(record.integer("cause"), 0, 2);
  return {block, static_cast<Cause>(cause), record.text("text")};
}

void throw_failure(const Failure& failure) {
  if (failure.cause == Cause::own)
    throw UserError("block {}: {}", failure.block, failure.text);
  throw LinkError("block {}: {}", failure.block, failure.text);
}

Message control_message(MessageKind kind, const Record& record) {
  const std::string text = to_json(record);
  TensorView view;
  view.name = "json";
  view.dtype = DType::uint8;
  view.sizes = {static_cast<std::int64_t>(text.size())};
  view.strides = {1};
  view.buffer = allocate_buffer(text.size());
  std::memcpy(view.buffer.data, text.data(), text.size());
  Message message{.kind = kind};
  message.tensors.push_back(std::move(view));
  return message;
}

Record record_of(const Message& message) {
  if (message.tensors.empty() || message.tensors[0].name != "json")
    throw LinkError("a {} message without its text", name_of(message.kind));
  const Buffer& buffer = message.tensors[0].buffer;
  return record_from_json(
      {reinterpret_cast<const char*>(buffer.data), buffer.bytes});
}

Message clock_question() {
  return control_message(MessageKind::clock, {});
}

Message clock_answer() {
  Record record;
  record.set("time", steady_seconds());
  return control_message(MessageKind::clock, record);
}

Record actions_record(int block, std::int64_t phase,
                      const std::string& actions) {
  Record record;
  record.set("kind", "actions");
  record.set("block", std::int64_t{block});
  record.set("phase", phase);
  record.set("actions", actions);
  return record;
}

Record to_record(const Grant& grant) {
  Record record;
  record.set("first_turn", grant.first_turn);
  record.set("end_turn", grant.end_turn);
  record.set("phase", grant.phase);
  record.set("first_batch", grant.first_batch);
  record.set("drain", std::int64_t{grant.drain});
  record.set("evaluation_batches", grant.evaluation_batches);
  record.set("checkpoint", std::int64_t{grant.checkpoint});
  record.set("finish", std::int64_t{grant.finish});
  record.set("part", static_cast<std::int64_t>(grant.part));
  return record;
}

Grant grant_from(const Record& record) {
  return {.first_turn = record.integer("first_turn"),
          .end_turn = record.integer("end_turn"),
          .phase = record.integer("phase"),
          .first_batch = record.integer("first_batch"),
          .drain = flag(record, "drain"),
          .evaluation_batches = record.integer("evaluation_batches"),
          .checkpoint = flag(record, "checkpoint"),
          .finish = flag(record, "finish"),
          .part = static_cast<TurnPart>(record.integer("part"))};
}

ControlServer::ControlServer(std::vector<Link> links, Coordinator& coordinator,
                             std::shared_ptr<Witness> witness,
                             ProgressBoard* board)
    : links_(std::move(links)),
      coordinator_(coordinator),
      witness_(std::move(witness)),
      board_(board) {}

void ControlServer::fail(Failure failure) {
  coordinator_.abandon();
  const std::lock_guard lock(mutex_);
  failures_.push_back(std::move(failure));
  if (failures_.size() == 1 && on_failure_) on_failure_();
}

void ControlServer::converse(int block, Link& link) {
  std::size_t sent = 0;
  std::size_t reached = 0;
  bool is_gone = false;  // but it may have said why
  const auto send_ahead = [&] {
    while (sent < reached + kGrantsAhead && !is_gone) {
      Coordinator::Asked asked = coordinator_.ask(sent);
      if (asked.answer == Coordinator::Answer::later && sent == reached) {
        const Absence absence(board_, block, &ProgressBoard::rests);
        const std::optional<Grant> grant = coordinator_.wait_for(sent);
        if (grant) asked = {Coordinator::Answer::granted, *grant};
      }
      if (asked.answer != Coordinator::Answer::granted) return;
      try {
        link.sender->send(
            control_message(MessageKind::grant, to_record(asked.grant)));
        ++sent;
      } catch (const LinkError&) {
        is_gone = true;
      }
    }
  };
  std::optional<TimeQuestions> questions;
  if (board_) questions.emplace();
  // The first grant comes after the last answer.
  const auto go_on = [&] {
    if (questions && !questions->is_over()) {
      is_gone = !questions->ask(*link.sender);
      return;
    }
    if (questions) coordinator_.write(questions->record(block));
    questions.reset();
    send_ahead();
  };
  go_on();
  while (reached < sent || questions || is_gone) {
    const std::optional<Message> message = link.receiver->receive();
    if (!message)
      throw PeerGone("the worker of block {} ended before its work", block);
    if (board_) board_->heard(block, message->kind != MessageKind::progress);
    const Absence absence(board_, block, &ProgressBoard::is_served);
    if (message->kind == MessageKind::record) {
      coordinator_.write(record_of(*message));
    } else if (message->kind == MessageKind::witness && witness_) {
      tell(*message, *witness_);
    } else if (message->kind == MessageKind::progress && board_) {
      board_->progress(block, record_of(*message));
    } else if (message->kind == MessageKind::reached) {
      coordinator_.reached(block, reached++);
      send_ahead();
    } else if (message->kind == MessageKind::clock && questions) {
      questions->hear(*message);
      go_on();
    } else if (message->kind == MessageKind::failure) {
      fail(failure_from(record_of(*message), block));
      return;
    }
  }
  link.sender->close();
}

void ControlServer::serve_block(int block) {
  try {
    converse(block, links_[static_cast<std::size_t>(block) - 1]);
  } catch (const std::exception& error) {
    fail({block, cause_of(error), text_of(error)});
  }
  if (board_) board_->ended(block);
  // A worker whose coordinator failed ends when it finds its link gone, and its
  // neighbours after it.
  links_[static_cast<std::size_t>(block) - 1] = {};
}

void ControlServer::serve(const std::function<void()>& on_failure) {
  on_failure_ = on_failure;
  std::vector<std::thread> threads;
  for (int block = 1; block <= std::ssize(links_); ++block)
    threads.emplace_back(&ControlServer::serve_block, this, block);
  for (std::thread& thread : threads) thread.join();
  if (failures_.empty()) return;
  const Failure& first =
      *std::min_element(failures_.begin(), failures_.end(),
                        [](const Failure& left, const Failure& right) {
                          return left.cause < right.cause;
                        });
  failed_block_ = first.block;
  throw_failure(first);
}

}  // namespace sluice
