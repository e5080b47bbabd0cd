#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "lib/schedules/plan/op.h"
#include "lib/schedules/plan/peers.h"
#include "lib/schedules/plan/plan.h"

namespace sluice {

/// Replicas that an exchange is between.
enum class ExchangePartners : std::uint8_t {
  all,    ///< a settle waits until all have published
  peers,  ///< it waits for those that the plan's graph names
  centre  ///< it waits for the block's centre (ReplicaExchange::served)
};

/// The way of an exchange from replica to replica.
struct ExchangeSteps {
  double steps = 0;  ///< one after the other
  int parts = 1;     ///< of the bytes, one in each step; 0: bytes aren't known
};

/// What a kind of exchange is to schedules. A new kind is its name in op.h, its
/// row, and what a seat does then (lib/workers/exchanges).
struct ExchangeRow {
  ExchangeKind kind = ExchangeKind::none;
  std::string_view name = {};  ///< for people: "gradients"
  /// Number behind the batch in a schedule as text; 0: that of a window.
  std::int64_t number = 0;
  ExchangePartners between = ExchangePartners::all;
  /// Whether it stands right behind that action in a program; nullptr: others
  /// put it there.
  bool (*is_due)(const BlockPlan& plan, const Grant& grant,
                 const Action& before) = nullptr;
  /// Steps that a settle takes; not with a centre.
  ExchangeSteps (*steps)(const BlockPlan& plan, const Action& settle) = nullptr;
};

/// Rows in the order of ExchangeKind.
std::span<const ExchangeRow> exchange_rows();
const ExchangeRow& row_of(ExchangeKind kind);
/// The kind with that number, not 0; `none` when there is none.
ExchangeKind exchange_of_number(std::int64_t number);

/// Whether actions of the op have a kind of exchange.
bool is_exchange(Op op);
/// Whether the exchange is the one around an update, and the first of two.
bool is_of_window(ExchangeKind kind);
/// Whether the action is a lesson, or sums one.
bool is_of_lesson(const Action& action);
/// The exchange that follows the action in a program, if one does.
std::optional<ExchangeKind> exchange_after(const BlockPlan& plan,
                                           const Grant& grant,
                                           const Action& before);

/// Peers of the plan's replica in an exchange. Exchanges are numbered by their
/// turns, so that a continued run goes on with the same peers.
Peers peers_of(const BlockPlan& plan, const Action& exchange);
/// The replica beside which the centre is that the plan's replica comes to.
int host_of(const BlockPlan& plan, const Action& visit);
/// Whether the replica has a centre beside it.
bool has_centre(const BlockPlan& plan);
/// Replicas of a block that come to a centre over a link.
int visitors_of(const ReplicaExchange& exchange);
/// Whether the norm of the whole model is that of what the replicas have given
/// each other: its parts go down when a block has that, not with the gradients
/// of a batch.
bool is_norm_of_exchanged(const RunPlan& plan, int seat);
/// Whether that settle gives the block what the next update applies.
bool gives_gradients(const BlockPlan& plan, const Action& settle);
/// Whether the replicas sum the gradients of each lesson of what the ends of
/// the block's boundaries train; else each steps by its own, and those who
/// exchange weights exchange these too.
bool sums_lessons(const BlockPlan& plan);

}  // namespace sluice
