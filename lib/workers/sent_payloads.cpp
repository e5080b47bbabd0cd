#include "lib/workers/sent_payloads.h"

#include <utility>

#include <fmt/format.h>

#include "lib/tensors/gpu/staging.h"

namespace sluice {

void SentPayloads::remember(std::int64_t batch, const DownPayload& down,
                            std::int64_t most) {
  if (most <= 0) return;
  sent_[batch] = down;
  while (std::ssize(sent_) > most) sent_.erase(sent_.begin());
}

std::map<std::int64_t, DownPayload> SentPayloads::take() {
  return std::exchange(sent_, {});
}

std::int64_t SentPayloads::bytes() const {
  std::int64_t bytes = 0;
  for (const auto& [batch, down] : sent_) bytes += down.bytes();
  return bytes;
}

void SentPayloads::save(const std::string& name, NamedTensors& all) const {
  for (const auto& [batch, down] : sent_) {
    const std::string prefix = fmt::format("{}.{}.", name, batch);
    for (std::size_t way = 0; way < down.gradients.size(); ++way)
      save_list(down.gradients[way], prefix + gradient_name(way), all);
    if (!down.answer.empty()) save_list(down.answer, prefix + kAnswer, all);
    if (!down.returned.empty())
      save_list(down.returned, prefix + kReturned, all);
    if (down.losses.defined()) save_list({down.losses}, prefix + kLosses, all);
  }
}

void SentPayloads::restore(const std::string& name, const SavedState& saved,
                           const std::vector<std::int64_t>& batches,
                           const c10::Device& device) {
  for (const std::int64_t batch : batches) {
    const std::string prefix = fmt::format("{}.{}.", name, batch);
    const auto has = [&](const std::string& what) {
      return saved.has(prefix + what + ".count");
    };
    const auto list = [&](const std::string& what) {
      return on_device(saved.list(prefix + what), device);
    };
    DownPayload& down = sent_[batch];
    for (std::size_t way = 0; has(gradient_name(way)); ++way)
      down.gradients.push_back(list(gradient_name(way)));
    if (has(kAnswer)) down.answer = list(kAnswer);
    if (has(kReturned)) down.returned = list(kReturned);
    if (has(kLosses)) down.losses = saved.list(prefix + kLosses).at(0);
  }
}

}  // namespace sluice
