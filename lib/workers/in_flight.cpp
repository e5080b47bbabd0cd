#include "lib/workers/in_flight.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lib/base/error.h"
#include "lib/tensors/gpu/staging.h"
#include "lib/tensors/leaves.h"
#include "lib/workers/payloads.h"

namespace sluice {
namespace {

template <class T>
T taken(std::map<std::int64_t, T>& from, std::int64_t batch) {
  return std::move(from.extract(batch).mapped());
}

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

std::int64_t kept_bytes(const Flight& flight) {
  return bytes_of(flight.inputs) + bytes_of({flight.labels}) +
         bytes_of(flight.attachments);
}

std::int64_t kept_bytes(const PendingLesson& lesson) {
  return bytes_of(lesson.features) + bytes_of({lesson.labels}) +
         bytes_of(lesson.from_above) + bytes_of(lesson.answer) +
         bytes_of(lesson.attachments);
}

}  // namespace

bool BatchesInFlight::empty() const {
  return flights.empty() && lessons.empty() && halves.empty();
}

bool BatchesInFlight::have_version(std::int64_t version) const {
  return std::any_of(flights.begin(), flights.end(),
                     [&](const auto& item) {
                       return item.second.version == version;
                     }) ||
         std::any_of(halves.begin(), halves.end(), [&](const auto& item) {
           return item.second.flight.version == version;
         });
}

std::size_t BatchesInFlight::graphs() const {
  return static_cast<std::size_t>(std::count_if(
             flights.begin(), flights.end(),
             [](const auto& item) { return !item.second.outputs.empty(); })) +
         halves.size();
}

Flight BatchesInFlight::take_flight(std::int64_t batch) {
  return taken(flights, batch);
}

PendingLesson BatchesInFlight::take_lesson(std::int64_t batch) {
  return taken(lessons, batch);
}

PendingBackward BatchesInFlight::take_half(std::int64_t batch) {
  return taken(halves, batch);
}

MemoryUse BatchesInFlight::memory(const WeightView& view,
                                  std::int64_t other_graphs) const {
  MemoryUse now{.stash = view.kept_bytes(), .graph = other_graphs};
  for (const auto& [batch, flight] : flights) {
    now.stash += view.stashed_bytes(flight);
    now.history += kept_bytes(flight);
    now.graph += flight.graph_bytes;
  }
  for (const auto& [batch, half] : halves) {
    now.history += kept_bytes(half.flight);
    for (const Pull& pull : half.pulls) now.history += bytes_of(pull.signal);
    now.graph += half.flight.graph_bytes;
  }
  for (const auto& [batch, lesson] : lessons) now.history += kept_bytes(lesson);
  return now;
}

void BatchesInFlight::mark_in(Ledger& ledger) const {
  for (const auto& [batch, flight] : flights)
    ledger.set(Mark::in_flight, batch);
  for (const auto& [batch, lesson] : lessons) ledger.set(Mark::lesson, batch);
}

void BatchesInFlight::check_against(const Ledger& ledger, int block) const {
  check_batches(block, "in flight", flights, ledger.with(Mark::in_flight));
  check_batches(block, "to learn from", lessons, ledger.with(Mark::lesson));
}

void BatchesInFlight::save(int block, const WeightView& view,
                           NamedTensors& all) const {
  SLUICE_CHECK(halves.empty(), "block {} is saved within a backward", block);
  for (const auto& [batch, flight] : flights) {
    const std::string name = fmt::format("flights.{}.{}", block, batch);
    save_number(flight.version, name + ".version", all);
    save_list(flight.inputs, name + ".input", all);
    save_list({flight.labels}, name + ".label", all);
    save_list(view.weights_of(flight), name + ".weight", all);
    for (const auto& [what, tensor] : flight.attachments)
      save_list({tensor}, fmt::format("{}.{}", name, what), all);
  }
  for (const auto& [batch, lesson] : lessons) {
    const std::string name = fmt::format("lessons.{}.{}", block, batch);
    save_list(lesson.features, name + ".feature", all);
    save_list({lesson.labels}, name + ".label", all);
    save_list(lesson.from_above, name + ".gradient", all);
    if (!lesson.answer.empty())
      save_list(lesson.answer, fmt::format("{}.{}", name, kAnswer), all);
    for (const auto& [what, tensor] : lesson.attachments)
      save_list({tensor}, fmt::format("{}.{}", name, what), all);
  }
}

void BatchesInFlight::restore(
    int block, const SavedState& saved, const BlockPlan& plan,
    const c10::Device& device, WeightView& view,
    const std::function<Pass(std::int64_t batch)>& pass_for) {
  const auto list = [&](const std::string& name) {
    return on_device(saved.list(name), device);
  };
  const std::string all_flights = fmt::format("flights.{}", block);
  for (const std::int64_t batch : saved.numbers_below(all_flights)) {
    const std::string name = fmt::format("{}.{}", all_flights, batch);
    Flight flight{
        .inputs = leaves_of(list(name + ".input"), plan.gradient_to_below()),
        .labels = list(name + ".label").at(0),
        .pass = pass_for(batch),
        .version = saved.number(name + ".version")};
    for (const std::string& what : plan.lower.keeps)
      flight.attachments[what] = list(fmt::format("{}.{}", name, what)).at(0);
    view.restore(flight, list(name + ".weight"));
    flights.emplace(batch, std::move(flight));
  }
  const std::string all_lessons = fmt::format("lessons.{}", block);
  for (const std::int64_t batch : saved.numbers_below(all_lessons)) {
    const std::string name = fmt::format("{}.{}", all_lessons, batch);
    PendingLesson lesson{list(name + ".feature"), list(name + ".label").at(0),
                         list(name + ".gradient"), pass_for(batch)};
    const std::string answer = fmt::format("{}.{}", name, kAnswer);
    if (saved.has(answer + ".count")) lesson.answer = list(answer);
    for (const std::string& what : plan.lower.keeps)
      lesson.attachments[what] = list(fmt::format("{}.{}", name, what)).at(0);
    lessons.emplace(batch, std::move(lesson));
  }
}

}  // namespace sluice
