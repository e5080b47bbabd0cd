// What a worker keeps over a checkpoint, and what it reports at its end.
#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include <ATen/ATen.h>

#include "lib/base/error.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/checkpoints/saved_state.h"
#include "lib/memory/allocator.h"
#include "lib/tensors/leaves.h"
#include "lib/tensors/precision.h"
#include "lib/tensors/staging.h"
#include "lib/workers/worker.h"

namespace sluice {
namespace {

/// A checkpoint of another turn, or of another schedule, has others.
template <class T>
void check_batches(int block, std::string_view what,
                   const std::map<std::int64_t, T>& saved,
                   const std::set<BatchRound>& due) {
  std::vector<std::int64_t> batches, wanted;
  for (const auto& [batch, value] : saved) batches.push_back(batch);
  for (const BatchRound& visit : due) wanted.push_back(visit.batch);
  SLUICE_CHECK(batches == wanted,
               "block {} has [{}] {} where its schedule has [{}]", block,
               fmt::join(batches, ", "), what, fmt::join(wanted, ", "));
}

void save_staleness(const Staleness& of, const std::string& name,
                    NamedTensors& all) {
  save_number(of.sum, name + ".sum", all);
  save_number(of.most, name + ".most", all);
}

/// Checkpoints of earlier versions have none.
Staleness saved_staleness(const SavedState& saved, const std::string& name) {
  if (!saved.has(name + ".sum")) return {};
  return {saved.number(name + ".sum"), saved.number(name + ".most")};
}

std::int64_t elements_of(const NamedTensors& tensors) {
  std::int64_t count = 0;
  for (const auto& [name, tensor] : tensors) count += tensor.numel();
  return count;
}

}  // namespace

std::size_t Worker::graphs() const {
  return static_cast<std::size_t>(std::count_if(
      flights_.begin(), flights_.end(),
      [](const auto& item) { return !item.second.outputs.empty(); }));
}

NamedTensors Worker::weights() const {
  NamedTensors all = trained_;
  for (const Learners& each : learners_)
    all.insert(all.end(), each.tensors.begin(), each.tensors.end());
  for (const auto& named : parts_.block.buffers()) all.push_back(named);
  std::set<std::string> seen;
  for (const Stage& stage : stages_)
    for (auto& named : stage.lower->buffers())
      if (seen.insert(named.first).second) all.push_back(std::move(named));
  for (const Stage& stage : stages_)
    for (auto& named : stage.upper->buffers())
      if (seen.insert(named.first).second) all.push_back(std::move(named));
  return all;
}

NamedTensors Worker::copied() const {
  NamedTensors all;
  for (const Stage& stage : stages_)
    for (auto& named : stage.lower->copied()) all.push_back(std::move(named));
  return all;
}

std::string Worker::name_in_state(std::string_view what) const {
  return fmt::format("{}.{}", what, block());
}

NamedTensors Worker::state() const {
  NamedTensors all = update_->state();
  for (const Learners& each : learners_)
    for (auto& named : each.update->state()) all.push_back(std::move(named));
  const std::string me = name_in_state("workers");
  save_number(version_, me + ".weight_version", all);
  save_number(first_batch_, me + ".first_batch", all);
  save_number(phase_, me + ".phase", all);
  save_number(parts_.block.first_layer(), me + ".first_layer", all);
  save_number(static_cast<std::int64_t>(plan().weights), me + ".weights", all);
  if (plan().in_flight > 0)
    save_number(plan().in_flight, me + ".in_flight", all);
  const std::string flights = name_in_state("flights");
  for (const auto& [batch, flight] : flights_) {
    const std::string name = fmt::format("{}.{}", flights, batch);
    save_number(flight.version, name + ".version", all);
    save_list(flight.inputs, name + ".input", all);
    save_list({flight.labels}, name + ".label", all);
    save_list(history_->weights_of(flight), name + ".weight", all);
    for (const auto& [what, tensor] : flight.attachments)
      save_list({tensor}, fmt::format("{}.{}", name, what), all);
  }
  for (const auto& [batch, lesson] : lessons_) {
    const std::string name =
        fmt::format("{}.{}", name_in_state("lessons"), batch);
    save_list(lesson.features, name + ".feature", all);
    save_list({lesson.labels}, name + ".label", all);
    save_list(lesson.from_above, name + ".gradient", all);
    if (!lesson.answer.empty())
      save_list(lesson.answer, fmt::format("{}.{}", name, kAnswer), all);
  }
  for (const auto& [batch, down] : sent_down_) {
    const std::string name =
        fmt::format("{}.{}.", name_in_state("sent"), batch);
    for (std::size_t way = 0; way < down.gradients.size(); ++way)
      save_list(down.gradients[way], name + gradient_name(way), all);
    if (!down.answer.empty()) save_list(down.answer, name + kAnswer, all);
  }
  for (const auto& [counter, counts] : log_.counts())
    for (const auto& [value, times] : counts)
      save_number(times,
                  fmt::format("{}.{}.{}.times", name_in_state("staleness"),
                              counter, value),
                  all);
  if (pending_.batches > 0) {
    const std::string name = name_in_state("accumulated");
    save_number(pending_.batches, name + ".batches", all);
    if (pending_.turns != pending_.batches)
      save_number(pending_.turns, name + ".turns", all);
    save_staleness(pending_.in_batches, name + ".d_batch", all);
    save_staleness(pending_.in_updates, name + ".d_upd", all);
    save_number(pending_.first_turn, name + ".first_batch", all);
    save_list(pending_.gradients, name + ".gradient", all);
  }
  return all;
}

void Worker::restore(const NamedTensors& weights, const NamedTensors& state,
                     std::string_view source) {
  copy_by_name(weights, this->weights(), source);
  copy_by_name(state, update_->state(), source);
  for (const Learners& each : learners_)
    copy_by_name(state, each.update->state(), source);
  const SavedState saved(state, source);
  const std::string phase = name_in_state("workers") + ".phase";
  if (saved.has(phase)) enter(saved.number(phase), 0);
  version_ = saved.number(name_in_state("workers") + ".weight_version");
  restore_flights(saved);
  restore_lessons(saved);
  restore_sent(saved);
  restore_pending(saved);
  restore_counts(saved);
}

void Worker::restore_sent(const SavedState& saved) {
  const std::string sent = name_in_state("sent");
  std::vector<std::int64_t> batches = saved.numbers_below(sent);
  if (plan().in_flight > 0) {
    const std::vector<std::int64_t> awaited = awaited_below(saved);
    std::erase_if(batches, [&](std::int64_t batch) {
      return !std::binary_search(awaited.begin(), awaited.end(), batch);
    });
  }
  for (const std::int64_t batch : batches) {
    const std::string name = fmt::format("{}.{}.", sent, batch);
    const auto has = [&](const std::string& what) {
      return saved.has(name + what + ".count");
    };
    const auto list = [&](const std::string& what) {
      return on_device(saved.list(name + what), device());
    };
    Down& down = sent_down_[batch];
    for (std::size_t way = 0; has(gradient_name(way)); ++way)
      down.gradients.push_back(list(gradient_name(way)));
    if (has(kAnswer)) down.answer = list(kAnswer);
  }
}

void Worker::restore_counts(const SavedState& saved) {
  WorkerLog::Counts counts;
  for (const char* counter : {"d_batch", "d_upd"}) {
    const std::string name =
        fmt::format("{}.{}", name_in_state("staleness"), counter);
    for (const std::int64_t value : saved.numbers_below(name))
      counts[counter][value] =
          saved.number(fmt::format("{}.{}.times", name, value));
  }
  log_.restore(std::move(counts));
}

void Worker::restore_pending(const SavedState& saved) {
  const std::string name = name_in_state("accumulated");
  if (!saved.has(name + ".batches")) return;
  pending_.batches = saved.number(name + ".batches");
  pending_.turns = saved.has(name + ".turns") ? saved.number(name + ".turns")
                                              : pending_.batches;
  pending_.first_turn = saved.number(name + ".first_batch");
  pending_.in_batches = saved_staleness(saved, name + ".d_batch");
  pending_.in_updates = saved_staleness(saved, name + ".d_upd");
  pending_.gradients = on_device(saved.list(name + ".gradient"), device());
}

void Worker::restore_flights(const SavedState& saved) {
  const PrecisionScope precision(settings_.precision, device().type());
  const std::string flights = name_in_state("flights");
  const auto list = [&](const std::string& name) {
    return on_device(saved.list(name), device());
  };
  for (const std::int64_t batch : saved.numbers_below(flights)) {
    const std::string name = fmt::format("{}.{}", flights, batch);
    Flight flight{
        .inputs = leaves_of(list(name + ".input"), plan().gradient_to_below()),
        .labels = list(name + ".label").at(0),
        .pass = pass_for({.batch = batch}, true),
        .version = saved.number(name + ".version")};
    for (const std::string& what : plan().keeps)
      flight.attachments[what] = list(fmt::format("{}.{}", name, what)).at(0);
    history_->restore(flight, list(name + ".weight"));
    flights_.emplace(batch, std::move(flight));
  }
}

void Worker::restore_lessons(const SavedState& saved) {
  const std::string lessons = name_in_state("lessons");
  for (const std::int64_t batch : saved.numbers_below(lessons)) {
    const std::string name = fmt::format("{}.{}", lessons, batch);
    const auto list = [&](const char* what) {
      return on_device(saved.list(name + what), device());
    };
    lessons_[batch] = {list(".feature"), list(".label").at(0),
                       list(".gradient"), pass_for({.batch = batch}, true)};
    const std::string answer = fmt::format(".{}", kAnswer);
    if (saved.has(name + answer + ".count"))
      lessons_[batch].answer = list(answer.c_str());
  }
}

void Worker::start(const Grant& first) {
  enter(first.phase, first.first_turn);
  if (plan().in_flight > 0) return start_free(first);
  const auto sent = std::move(sent_down_);
  sent_down_.clear();
  for (const Transfer& transfer :
       in_flight(run_plan(), first.first_turn, first.first_batch))
    if (transfer.from == block())
      send_down({.batch = transfer.batch}, sent.at(transfer.batch));
  first_batch_ = first.first_batch;
  ledger_ = {};
  ledger_.begin(plan(), first.first_turn, first_batch_);
  check_batches(block(), "in flight", flights_, ledger_.with(Mark::in_flight));
  check_batches(block(), "to learn from", lessons_, ledger_.with(Mark::lesson));
  last_turn_ = first.first_turn - 1;
  // A window that was incomplete when the pipe was drained is not applied.
  if (pending_.first_turn < first_batch_) pending_ = {};
}

/// What is in flight when it is most: after a forward.
void Worker::note_memory() {
  MemoryUse now;
  for (const auto& [batch, flight] : flights_) {
    now.stash += history_->stashed_bytes(flight);
    now.history += bytes_of(flight.inputs) + bytes_of({flight.labels}) +
                   bytes_of(flight.attachments);
  }
  for (const auto& [batch, lesson] : lessons_)
    now.history += bytes_of(lesson.features) + bytes_of({lesson.labels}) +
                   bytes_of(lesson.from_above) + bytes_of(lesson.answer);
  now.history += upper().kept_bytes();
  for (const auto& [batch, down] : sent_down_) {
    for (const Tensors& each : down.gradients) now.history += bytes_of(each);
    now.history += bytes_of(down.answer);
  }
  if (buffer_) now.queue += static_cast<std::int64_t>(buffer_->bytes());
  for (const Link* link : {&parts_.below, &parts_.above})
    if (link->receiver)
      now.queue += static_cast<std::int64_t>(link->receiver->waiting_bytes());
  memory_use_.raise_to(now);
  note_graphs(0);
}

/// `of_backward`: bytes of the graph whose batch is no flight any more.
void Worker::note_graphs(std::int64_t of_backward) {
  MemoryUse now{.graph = of_backward};
  for (const auto& [batch, flight] : flights_) now.graph += flight.graph_bytes;
  memory_use_.raise_to(now);
}

Record Worker::costs() const {
  Record record;
  record.set("kind", "block");
  record.set("block", std::int64_t{block()});
  std::int64_t parameters = elements_of(trained_);
  std::int64_t optimizer_bytes = bytes_of(values_of(update_->state()));
  for (const Learners& each : learners_) {
    parameters += elements_of(each.tensors);
    optimizer_bytes += bytes_of(values_of(each.update->state()));
  }
  record.set("parameters", parameters);
  record.set("forward_s", spent_.of(Op::forward));
  record.set("backward_s", spent_.of(Op::backward) +
                               spent_.of(Op::backward_input) +
                               spent_.of(Op::backward_weights));
  record.set("update_s", spent_.of(Op::update));
  record.set("learn_s", spent_.of(Op::learn) + spent_.of(Op::learn_input));
  record.set("evaluate_s", spent_.of(Op::evaluate));
  record.set("waiting_s", spent_.waiting);
  record.set("weights_bytes", bytes_of(values_of(weights())));
  record.set("optimizer_bytes", optimizer_bytes);
  record.set("stash_bytes", memory_use_.stash);
  record.set("history_bytes", memory_use_.history);
  record.set("queue_bytes", memory_use_.queue);
  if (parts_.memory && allocator_installed()) {
    record.set("graph_bytes", memory_use_.graph);
    record.set("peak_bytes",
               static_cast<std::int64_t>(parts_.memory->peak_bytes()));
  }
  return record;
}

void Worker::finish() {
  if (gpu_clock_) gpu_clock_->collect(spent_, /*all=*/true);
  log_.write(costs());
  log_.staleness();
  if (plan().slow_consumer != SlowConsumer::block) log_.dropped(dropped_);
  // What was learned after the last update.
  if (settings_.hashes) log_.hashed({.turn = last_turn_ + 1}, {}, weights());
  for (Link* link : {&parts_.below, &parts_.above})
    if (link->sender) link->sender->close();
}

namespace {

/// Takes a message of a neighbour whom this block needs no more. That it takes
/// long is no failure; one that is gone says why itself, or the launcher does.
bool still_sends(Receiver& neighbour) {
  try {
    return neighbour.receive().has_value();
  } catch (const LinkError&) {
    return !neighbour.ready();
  }
}

}  // namespace

void Worker::outlast_neighbours() {
  for (Link* link : {&parts_.below, &parts_.above})
    while (link->receiver && still_sends(*link->receiver)) {
    }
}

}  // namespace sluice
