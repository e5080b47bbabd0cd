#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/base/messages/message.h"
#include "lib/replicas/centre/centre_visit.h"

namespace sluice {

// Messages between a replica and the centre of its block. What they hold may
// lie in the memory of a link; whoever keeps it longer than the message copies
// it. All functions that read a message throw LinkError for one that says
// something else.

/// Kinds of them, as the round of the message. All but the opening and the end
/// have answers, with the same round; or, where the centre has failed, the
/// last.
enum class CentreMessage : std::int64_t {
  open,
  push,
  bring,
  take,
  deal,
  arrival,
  entry,
  end,
  failure
};

CentreMessage said_in(const Message& message);
Message message_for(CentreMessage said);

Message message_of(const CentreOpening& opening);
CentreOpening opening_in(const Message& message);

/// `said`: push or bring.
Message message_of(const Push& push, CentreMessage said);
Push push_in(const Message& message, int member);

/// A number and its answer, as Centre says: the place of what was brought,
/// whether a schedule says that it is time to take.
Message message_of(std::int64_t number, CentreMessage said);
std::int64_t number_in(const Message& message);

Message message_of(const ServerAnswer& served);
ServerAnswer served_in(const Message& message);

Message message_of(const MergeResult& merged);
MergeResult merged_in(const Message& message);

/// Batches from which one is to be dealt; and which it is.
struct DealRequest {
  std::int64_t first = 0;
  std::int64_t end = 0;
};
Message message_of(const DealRequest& request);
DealRequest deal_in(const Message& message);
Message message_of_dealt(std::optional<std::int64_t> batch);
std::optional<std::int64_t> dealt_in(const Message& message);

Message message_of_arrival(const Tensors& statistics);
Tensors statistics_in(const Message& message);

/// What it says at rest: to the replica that has opened the centre, or to the
/// first one; nothing to others.
Message message_of_rest(const CentreAtRest* rest);
std::optional<CentreAtRest> rest_in(const Message& message);

/// What it gives to a replica that joins.
Message message_of(const CentreEntry& entry);
CentreEntry entry_in(const Message& message);

/// Why a centre has ended.
struct CentreFailure {
  std::string text = {};
  /// A replica has left without a word, and its own error says why.
  bool is_gone = false;
};
Message message_of(const CentreFailure& failure);
CentreFailure failure_in(const Message& message);

}  // namespace sluice
