#include "experiments/data/change/assisted_source.h"

#include <fmt/format.h>

#include "lib/base/error.h"
#include "lib/checkpoints/saved_state.h"

namespace sluice {
namespace {

constexpr const char* kAssistant = "assistant";
constexpr const char* kDrawn = "assistant.drawn";

}  // namespace

AssistedSource::AssistedSource(AssistedDraws draws, std::int64_t lag)
    : draws_(std::move(draws)), lag_(lag) {
  SLUICE_CHECK(lag >= 1, "an assistant with lag {}", lag);
}

Batch AssistedSource::batch(std::int64_t t) {
  if (t != draws_.next()) open_.clear();
  learn_until(t - lag_ * draws_.stride());
  const DrawnBatch& drawn = (open_[t] = {.drawn = draws_.draw(t)}).drawn;
  return draws_.make(t, drawn);
}

std::vector<std::pair<std::string, double>> AssistedSource::learn(
    std::int64_t t, const at::Tensor& losses) {
  const auto found = open_.find(t);
  if (found == open_.end()) return {};
  const DrawnBatch& drawn = found->second.drawn;
  SLUICE_CHECK(losses.numel() == std::ssize(drawn.indices),
               "{} losses of the {} samples of batch {}", losses.numel(),
               drawn.indices.size(), t);
  found->second.losses = losses.clone();  // of a message's memory
  return draws_.figures_of(drawn);
}

/// Learns in the order of the batches, whatever the order in which losses came.
void AssistedSource::learn_until(std::int64_t last) {
  const auto end = open_.upper_bound(last);
  for (auto item = open_.begin(); item != end; ++item)
    if (const OpenBatch& one = item->second; one.losses.defined())
      draws_.learn(one.drawn, one.losses);
  open_.erase(open_.begin(), end);
}

NamedTensors AssistedSource::state() const {
  NamedTensors all;
  draws_.save(kAssistant, all);
  for (const auto& [batch, one] : open_)
    one.drawn.save(fmt::format("{}.{}", kDrawn, batch), one.losses, all);
  return all;
}

void AssistedSource::restore(const NamedTensors& state,
                             std::string_view source) {
  const SavedState saved(state, source);
  if (!saved.has(fmt::format("{}.next", kAssistant))) return;  // had none
  draws_.restore(kAssistant, saved);
  for (const std::int64_t batch : saved.numbers_below(kDrawn)) {
    auto [drawn, losses] =
        DrawnBatch::restored(fmt::format("{}.{}", kDrawn, batch), saved);
    open_[batch] = {std::move(drawn), std::move(losses)};
  }
}

}  // namespace sluice
