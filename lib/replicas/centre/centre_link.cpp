#include "lib/replicas/centre/centre_link.h"

#include <utility>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "lib/base/error.h"
#include "lib/replicas/centre/centre_host.h"

namespace sluice {
namespace {

/// Copies, for the message's memory goes back to the link.
void copy(Tensors& tensors) {
  for (at::Tensor& tensor : tensors) tensor = tensor.clone();
}

}  // namespace

CentreLink::CentreLink(Link link, int member, int members, std::string name,
                       std::shared_ptr<CentreHost> host)
    : host_(std::move(host)),
      link_(std::move(link)),
      member_(member),
      members_(members),
      name_(std::move(name)) {}

CentreLink::~CentreLink() {
  link_.sender->close();
}

void CentreLink::open(const CentreOpening& opening) {
  const at::NoGradGuard no_grad;
  link_.sender->send(message_of(opening));
}

ServerAnswer CentreLink::visit(const Push& push) {
  const at::NoGradGuard no_grad;
  return served_in(ask(message_of(push, CentreMessage::push)));
}

std::int64_t CentreLink::bring(const Push& push) {
  const at::NoGradGuard no_grad;
  return number_in(ask(message_of(push, CentreMessage::bring)));
}

MergeResult CentreLink::take(bool told) {
  const at::NoGradGuard no_grad;
  return merged_in(ask(message_of(told ? 1 : 0, CentreMessage::take)));
}

CentreEntry CentreLink::enter() {
  const at::NoGradGuard no_grad;
  return entry_in(ask(message_for(CentreMessage::entry)));
}

void CentreLink::admit(int member, std::int64_t life, Link link) {
  SLUICE_CHECK(host_, "{}: the centre isn't beside replica {}", name_, member_);
  host_->admit(member, life, std::move(link));
}

std::optional<std::int64_t> CentreLink::deal(std::int64_t first,
                                             std::int64_t end) {
  return dealt_in(ask(message_of(DealRequest{.first = first, .end = end})));
}

void CentreLink::arrive(const Tensors& statistics) {
  const at::NoGradGuard no_grad;
  link_.sender->send(message_of_arrival(statistics));
}

void CentreLink::await_rest() {
  const at::NoGradGuard no_grad;
  std::optional<CentreAtRest> rest = rest_in(answer_to(CentreMessage::arrival));
  if (!rest) return;
  copy(rest->weights);
  copy(rest->statistics);
  copy(rest->visitors);
  for (auto& [name, tensor] : rest->state) tensor = tensor.clone();
  at_rest_ = std::move(rest);
}

void CentreLink::finish() {
  link_.sender->send(message_for(CentreMessage::end));
}

Message CentreLink::ask(Message message) {
  const CentreMessage said = said_in(message);
  link_.sender->send(std::move(message));
  return answer_to(said);
}

Message CentreLink::answer_to(CentreMessage said) {
  std::optional<Message> message = link_.receiver->receive();
  if (!message)
    throw PeerGoneError(
        "{}: its centre has ended or serves nobody any more, and replica {} "
        "waits for it",
        name_, member_);
  if (said_in(*message) == CentreMessage::failure) {
    const CentreFailure failure = failure_in(*message);
    if (failure.is_gone) throw PeerGoneError("{}", failure.text);
    throw UserError("{}", failure.text);
  }
  SLUICE_CHECK(said_in(*message) == said,
               "{}: replica {} expected another answer of the centre", name_,
               member_);
  return std::move(*message);
}

}  // namespace sluice
