#include "lib/replicas/groups/links_centre.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <iterator>
#include <optional>
#include <thread>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

#include "lib/base/error.h"
#include "lib/replicas/groups/memory_centre.h"
#include "lib/tensors/error_text.h"
#include "lib/tensors/pack.h"

namespace sluice {
namespace {

/// Kinds of messages between a replica and the centre, as the round of the
/// message. All but the end have answers, with the same round; or, where the
/// centre has failed, the last.
enum class CentreMessage : std::int64_t {
  push,
  arrival,
  end,
  bring,
  take,
  failure,
  deal
};

/// Whole numbers of a push, before a flag for each tensor: whether it is
/// defined.
constexpr std::int64_t kNumbers = 8;

at::Tensor numbers_in(const Push& push) {
  const UpdateInfo& info = push.info;
  std::vector<std::int64_t> numbers = {info.turn,
                                       info.batches,
                                       info.turns,
                                       info.in_batches.sum,
                                       info.in_batches.most,
                                       info.in_updates.sum,
                                       info.in_updates.most,
                                       push.clock};
  for (const at::Tensor& tensor : push.tensors)
    numbers.push_back(tensor.defined() ? 1 : 0);
  return at::tensor(numbers, at::kLong);
}

Tensors defined_of(const Tensors& tensors) {
  Tensors all;
  for (const at::Tensor& tensor : tensors)
    if (tensor.defined()) all.push_back(tensor);
  return all;
}

Message message_for(CentreMessage said) {
  return {.kind = MessageKind::exchange,
          .round = static_cast<std::int64_t>(said)};
}

Message message_of(const Push& push, CentreMessage said) {
  Message message = message_for(said);
  message.batch = push.batch;
  pack({numbers_in(push)}, "numbers", message);
  pack({at::full({1}, push.info.rate, at::kDouble)}, "rate", message);
  pack(defined_of(push.tensors), "x", message);
  return message;
}

/// The only tensor of that name, which has this type and `least` elements or
/// more.
at::Tensor one_in(const Message& message, const char* name, at::ScalarType type,
                  std::int64_t least) {
  const Tensors found = unpack(message, name);
  if (found.size() != 1 || found[0].scalar_type() != type ||
      found[0].dim() != 1 || found[0].numel() < least)
    throw LinkError("a replica has sent no {} to the centre", name);
  return found[0];
}

Push push_in(const Message& message, int member) {
  const at::Tensor numbers =
      one_in(message, "numbers", at::kLong, kNumbers).contiguous();
  const auto* said = numbers.const_data_ptr<std::int64_t>();
  Push push{.member = member, .clock = said[7], .batch = message.batch};
  push.info.turn = said[0];
  push.info.batches = said[1];
  push.info.turns = said[2];
  push.info.in_batches = {said[3], said[4]};
  push.info.in_updates = {said[5], said[6]};
  push.info.rate = one_in(message, "rate", at::kDouble, 1).item<double>();
  const Tensors sent = unpack(message, "x");
  std::size_t next = 0;
  for (std::int64_t i = kNumbers; i < numbers.numel(); ++i) {
    push.tensors.emplace_back();
    if (said[i] == 0) continue;
    if (next == sent.size())
      throw LinkError("replica {} has sent too few tensors to the centre",
                      member);
    push.tensors.back() = sent[next++];
  }
  return push;
}

Message message_of(const ServerAnswer& served, CentreMessage said) {
  Message message = message_for(said);
  message.batch = served.place;
  message.turn = served.clock;
  message.weight_version = served.missed;
  pack({at::full({1}, served.rate, at::kDouble)}, "rate", message);
  pack(served.tensors, "x", message);
  return message;
}

ServerAnswer served_in(const Message& message) {
  return {.tensors = unpack(message, "x"),
          .place = message.batch,
          .rate = one_in(message, "rate", at::kDouble, 1).item<double>(),
          .clock = message.turn,
          .missed = message.weight_version};
}

Message message_of(const MergeResult& merged) {
  Message message = message_of(merged.served, CentreMessage::take);
  const std::vector<std::int64_t> numbers = {merged.is_late ? 1 : 0,
                                             merged.absent, merged.turn};
  pack({at::tensor(numbers, at::kLong)}, "merged", message);
  return message;
}

MergeResult merged_in(const Message& message) {
  const at::Tensor numbers =
      one_in(message, "merged", at::kLong, 3).contiguous();
  const auto* said = numbers.const_data_ptr<std::int64_t>();
  return {.served = served_in(message),
          .is_late = said[0] != 0,
          .absent = said[1],
          .turn = said[2]};
}

/// Copies: a message's memory goes back to its link.
Tensors copies_received(const Tensors& received) {
  Tensors copies;
  for (const at::Tensor& tensor : received)
    copies.push_back(tensor.defined() ? tensor.clone() : tensor);
  return copies;
}

Message brought_over(Centre& centre, const Message& message, int member) {
  Push push = push_in(message, member);
  push.tensors = copies_received(push.tensors);
  Message answer = message_for(CentreMessage::bring);
  answer.batch = centre.bring(std::move(push));
  return answer;
}

Message message_of_failure(const std::string& text) {
  const at::Tensor bytes = at::empty({std::ssize(text)}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr<std::uint8_t>(), text.data(), text.size());
  Message message = message_for(CentreMessage::failure);
  pack({bytes}, "text", message);
  return message;
}

std::string failure_in(const Message& message) {
  const at::Tensor bytes = one_in(message, "text", at::kByte, 1).contiguous();
  return {reinterpret_cast<const char*>(bytes.const_data_ptr<std::uint8_t>()),
          static_cast<std::size_t>(bytes.numel())};
}

/// The centre's answer to a replica that has arrived so many times.
Message answer_of(Centre& centre, const Message& message, int member,
                  std::int64_t& arrivals) {
  switch (static_cast<CentreMessage>(message.round)) {
    case CentreMessage::push:
      return message_of(centre.serve(push_in(message, member)),
                        CentreMessage::push);
    case CentreMessage::bring:
      return brought_over(centre, message, member);
    case CentreMessage::take:
      return message_of(centre.take(member, message.batch != 0));
    case CentreMessage::deal: {
      Message answer = message_for(CentreMessage::deal);
      // One more than the batch: 0 is none.
      answer.batch =
          centre.deal(member, message.batch, message.turn).value_or(-1) + 1;
      return answer;
    }
    case CentreMessage::arrival:
      centre.arrive(member, copies_received(unpack(message, "x")));
      centre.await_rest(++arrivals);
      return message_for(CentreMessage::arrival);
    default:
      throw LinkError("replica {} has said {} to the centre", member,
                      message.round);
  }
}

/// Serves one replica until it has ended, or has got the reason why it isn't
/// served.
/// Throws what goes wrong with the link, and PeerGoneError for another replica.
void serve_over(Centre& centre, Link& link, int member) {
  std::int64_t arrivals = 0;
  while (const std::optional<Message> message = link.receiver->receive()) {
    if (message->round == static_cast<std::int64_t>(CentreMessage::end)) return;
    std::optional<Message> answer;
    try {
      answer = answer_of(centre, *message, member, arrivals);
    } catch (const PeerGoneError&) {
      throw;
    } catch (const std::exception& error) {
      centre.leave(member, text_of(error));
      link.sender->send(message_of_failure(centre.failure()));
      link.sender->close();
      return;
    }
    link.sender->send(std::move(*answer));
  }
  centre.leave(member);
}

/// Replica 1: the centre, and a thread for each other replica.
class CentreOwner final : public CentreLink {
 public:
  CentreOwner(std::vector<Link> links, Deadline deadline,
              const std::string& name, std::shared_ptr<MemoryAccount> memory)
      : links_(std::move(links)),
        memory_(std::move(memory)),
        centre_(std::make_shared<Centre>(static_cast<int>(links_.size()),
                                         deadline, name)),
        own_(link_to_centre(centre_, 1)) {
    const int threads = at::get_num_threads();
    for (std::size_t i = 1; i < links_.size(); ++i)
      threads_.emplace_back([this, i, threads] { run(i, threads); });
  }
  /// Waits for the others; where it hasn't finished, they find it gone when
  /// they come next.
  ~CentreOwner() override { own_.reset(); }
  CentreOwner(const CentreOwner&) = delete;
  CentreOwner& operator=(const CentreOwner&) = delete;

  int members() const override { return own_->members(); }
  int member() const override { return 1; }
  Centre* owned() override { return centre_.get(); }
  ServerAnswer visit(Push push) override {
    return own_->visit(std::move(push));
  }
  std::int64_t bring(Push push) override {
    return own_->bring(std::move(push));
  }
  MergeResult take(bool told) override { return own_->take(told); }
  std::optional<std::int64_t> deal(std::int64_t first,
                                   std::int64_t end) override {
    return own_->deal(first, end);
  }
  void arrive(Tensors statistics) override {
    own_->arrive(std::move(statistics));
  }
  void await_rest() override { own_->await_rest(); }
  void finish() override { own_->finish(); }

 private:
  void run(std::size_t i, int threads) {
    at::set_num_threads(threads);  // of this thread
    std::optional<MemoryScope> scope;
    if (memory_) scope.emplace(*memory_);
    const int member = static_cast<int>(i) + 1;
    try {
      serve_over(*centre_, links_[i], member);
    } catch (const LinkError&) {
      centre_->leave(member);  // the replica, or its process, says why
      links_[i].sender->close();
    } catch (const std::exception& error) {
      centre_->leave(member, text_of(error));
      links_[i].sender->close();
    }
  }

  std::vector<Link> links_;
  const std::shared_ptr<MemoryAccount> memory_;
  const std::shared_ptr<Centre> centre_;
  std::unique_ptr<CentreLink> own_;
  std::vector<std::jthread> threads_;  // go first
};

class RemoteCentre final : public CentreLink {
 public:
  RemoteCentre(Link link, int members, int member, std::string name)
      : link_(std::move(link)),
        members_(members),
        member_(member),
        name_(std::move(name)) {}
  ~RemoteCentre() override { link_.sender->close(); }
  RemoteCentre(const RemoteCentre&) = delete;
  RemoteCentre& operator=(const RemoteCentre&) = delete;

  int members() const override { return members_; }
  int member() const override { return member_; }
  Centre* owned() override { return nullptr; }

  ServerAnswer visit(Push push) override {
    const at::NoGradGuard no_grad;
    link_.sender->send(message_of(push, CentreMessage::push));
    return served_in(answer_to(CentreMessage::push));
  }

  std::int64_t bring(Push push) override {
    const at::NoGradGuard no_grad;
    link_.sender->send(message_of(push, CentreMessage::bring));
    return answer_to(CentreMessage::bring).batch;
  }

  MergeResult take(bool told) override {
    const at::NoGradGuard no_grad;
    Message message = message_for(CentreMessage::take);
    message.batch = told ? 1 : 0;
    link_.sender->send(std::move(message));
    return merged_in(answer_to(CentreMessage::take));
  }

  std::optional<std::int64_t> deal(std::int64_t first,
                                   std::int64_t end) override {
    Message message = message_for(CentreMessage::deal);
    message.batch = first;
    message.turn = end;
    link_.sender->send(std::move(message));
    const std::int64_t batch = answer_to(CentreMessage::deal).batch;
    if (batch == 0) return std::nullopt;
    return batch - 1;
  }

  void arrive(Tensors statistics) override {
    const at::NoGradGuard no_grad;
    Message message = message_for(CentreMessage::arrival);
    pack(statistics, "x", message);
    link_.sender->send(std::move(message));
  }

  void await_rest() override { answer_to(CentreMessage::arrival); }

  void finish() override {
    link_.sender->send(message_for(CentreMessage::end));
  }

 private:
  Message answer_to(CentreMessage said) {
    std::optional<Message> message = link_.receiver->receive();
    if (!message)
      throw PeerGoneError(
          "{}: replica 1, which has the centre, has ended or serves nobody "
          "any more, and replica {} waits for it",
          name_, member_);
    if (message->round == static_cast<std::int64_t>(CentreMessage::failure))
      throw UserError("{}", failure_in(*message));
    SLUICE_CHECK(message->kind == MessageKind::exchange &&
                     message->round == static_cast<std::int64_t>(said),
                 "{}: replica {} expected another answer of the centre", name_,
                 member_);
    return std::move(*message);
  }

  Link link_;
  const int members_;
  const int member_;
  const std::string name_;
};

}  // namespace

std::unique_ptr<CentreLink> links_centre(
    std::vector<Link> links, int member, Deadline deadline,
    const std::string& name, std::shared_ptr<MemoryAccount> memory) {
  if (member == 1)
    return std::make_unique<CentreOwner>(std::move(links), deadline, name,
                                         std::move(memory));
  const int members = static_cast<int>(links.size());
  return std::make_unique<RemoteCentre>(std::move(links.at(0)), members, member,
                                        name);
}

}  // namespace sluice
