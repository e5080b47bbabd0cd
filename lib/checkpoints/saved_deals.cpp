#include "lib/checkpoints/saved_deals.h"

#include <cstdint>

#include <ATen/ATen.h>

#include "lib/base/error.h"
#include "lib/checkpoints/checkpoint.h"

namespace sluice {
namespace {

constexpr const char* kReplicas = ".replicas";
constexpr const char* kSinceTurn = ".since_turn";
constexpr const char* kSinceDeal = ".since_deal";
constexpr const char* kDealt = ".dealt";
constexpr const char* kCounts = ".replicas_of_blocks";

std::vector<std::int64_t> numbers_of(const at::Tensor& tensor) {
  const at::Tensor numbers = tensor.contiguous();
  const auto* first = numbers.const_data_ptr<std::int64_t>();
  return {first, first + numbers.numel()};
}

}  // namespace

void save_deals(const Deals& deals, const std::string& worker,
                NamedTensors& into) {
  if (deals.replicas > 1) save_number(deals.replicas, worker + kReplicas, into);
  if (deals.since_turn == 0) return;
  save_number(deals.since_turn, worker + kSinceTurn, into);
  save_number(deals.since_deal, worker + kSinceDeal, into);
}

Deals deals_in(const SavedState& saved, const std::string& worker) {
  const auto number = [&](const char* name, std::int64_t otherwise) {
    return saved.has(worker + name) ? saved.number(worker + name) : otherwise;
  };
  return {.replicas = number(kReplicas, 1),
          .since_turn = number(kSinceTurn, 0),
          .since_deal = number(kSinceDeal, 0)};
}

Deals deals_of(const std::string& checkpoint) {
  return deals_in({load_counters(checkpoint), checkpoint}, "workers.1");
}

void save_dealt(const DealtBatches& dealt, const std::string& worker,
                NamedTensors& into) {
  if (dealt == DealtBatches()) return;
  std::vector<std::int64_t> held;
  for (const auto& [replica, batch] : dealt.held)
    held.insert(held.end(), {replica, batch});
  save_list({at::tensor(dealt.returned, at::kLong), at::tensor(held, at::kLong),
             at::tensor(dealt.served, at::kLong)},
            worker + kDealt, into);
}

DealtBatches dealt_in(const SavedState& saved, const std::string& worker) {
  if (!saved.has(worker + kDealt + ".count")) return {};
  const Tensors all = saved.list(worker + kDealt);
  if (all.size() != 3)
    throw UserError("{}{}: {} lists for 3", worker, kDealt, all.size());
  DealtBatches dealt{.returned = numbers_of(all[0]),
                     .served = numbers_of(all[2])};
  const std::vector<std::int64_t> held = numbers_of(all[1]);
  for (std::size_t i = 0; i + 1 < held.size(); i += 2)
    dealt.held.emplace_back(static_cast<int>(held[i]), held[i + 1]);
  return dealt;
}

void save_counts(const std::vector<std::int64_t>& counts,
                 const std::string& worker, NamedTensors& into) {
  if (counts.empty()) return;
  save_list({at::tensor(counts, at::kLong)}, worker + kCounts, into);
}

std::vector<std::int64_t> counts_in(const SavedState& saved,
                                    const std::string& worker) {
  const std::string name = worker + kCounts;
  if (!saved.has(name + ".count")) return {};
  return numbers_of(saved.list(name).at(0));
}

std::vector<std::int64_t> counts_of(const std::string& checkpoint) {
  return counts_in({load_counters(checkpoint), checkpoint}, "workers.1");
}

}  // namespace sluice
