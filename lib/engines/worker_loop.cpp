#include "lib/engines/worker_loop.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "lib/base/error.h"
#include "lib/engines/control.h"
#include "lib/engines/free_loop.h"
#include "lib/metrics/clock_offset.h"
#include "lib/metrics/records.h"
#include "lib/schedules/orders/free_running.h"
#include "lib/schedules/replicas/replicas.h"

namespace sluice {
namespace {

class ControlSink final : public Sink {
 public:
  explicit ControlSink(Sender& control) : control_(control) {}
  void write(const Record& record) override {
    control_.send(record_message(record));
  }

 private:
  Sender& control_;
};

/// Where replicas come and go, what others have seen of one that is lost is to
/// be known. What is dropped in an action isn't known before it.
bool reports_parts(const RunPlan& plan,
                   const LinkToNewcomer& link_to_newcomer) {
  return link_to_newcomer && survives_loss(plan) && can_be_continued(plan);
}

void carry_out_grants(int block, const Plans& plans, Link& control, Seat& seat,
                      const SeatRunner& runner, FedSource* fed,
                      const LinkToNewcomer& link_to_newcomer) {
  std::optional<FreeLoop> free;
  std::int64_t phase = 0;
  FreeLoop::Report report;
  const bool has_parts = reports_parts(plans.at(0), link_to_newcomer);
  if (has_parts)
    report = [&](std::string actions) {
      control.sender->send(record_message(
          records::Actions{block, phase, std::move(actions), 1}));
    };
  if (runs_free(plans.at(0)))
    free.emplace(plans, seat, runner, std::move(report));
  std::optional<std::int64_t> pipe;
  while (true) {
    const std::optional<Message> message = control.receiver->receive();
    if (!message) throw PeerGoneError("the coordinator is gone");
    if (message->kind == MessageKind::clock) {
      control.sender->send(
          control_message(MessageKind::clock, ClockAnswer{steady_seconds()}));
      continue;
    }
    if (message->kind == MessageKind::newcomer) {
      const auto newcomer = said_in<Newcomer>(*message);
      if (auto link = link_to_newcomer(newcomer))
        seat.admit(newcomer.replica, newcomer.life, *std::move(link));
      else
        control.sender->send(*message);
      continue;
    }
    const auto grant = said_in<Grant>(*message);
    if (fed)
      for (Batch& batch : batches_of(*message)) fed->put(std::move(batch));
    // A pipe that was drained starts anew.
    if (pipe != grant.first_batch) seat.start(grant);
    pipe = grant.first_batch;
    phase = grant.phase;
    if (!free) runner.begin(block, grant);
    if (free) {
      const records::Actions done{block, phase, free->carry_out(grant)};
      if (has_parts || !done.actions.empty())
        control.sender->send(record_message(done));
    } else {
      for (const Action& action : actions_of(plans, block, grant))
        runner.execute(action, seat);
    }
    if (grant.finish) {
      seat.finish();
      seat.ports().outlast_neighbours();
    }
    control.sender->send({.kind = MessageKind::reached});
    if (grant.finish) return;
  }
}

void report(Link& control, const Failure& failure) {
  try {
    control.sender->send(control_message(MessageKind::failure, failure));
    control.sender->close();
  } catch (const LinkError&) {
    // The coordinator is gone too; what is thrown on says why we stop.
  }
}

}  // namespace

std::shared_ptr<Sink> control_sink(Sender& control) {
  return std::make_shared<ControlSink>(control);
}

void run_worker(int block, const Plans& plans, Link& control,
                const std::function<std::unique_ptr<Seat>()>& make,
                const SeatRunner& runner, FedSource* fed,
                const LinkToNewcomer& link_to_newcomer) {
  // Goes after a report: when its links end, others report that.
  std::unique_ptr<Seat> seat;
  try {
    seat = make();
    carry_out_grants(block, plans, control, *seat, runner, fed,
                     link_to_newcomer);
    control.sender->close();
  } catch (const std::exception& error) {
    runner.fail();
    report(control, {block, cause_of(error), text_of(error)});
    throw;
  }
}

}  // namespace sluice
