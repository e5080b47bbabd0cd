#include "experiments/runs/sinks/divergence.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "lib/checkpoints/checkpoint.h"

namespace sluice {
namespace {

std::string not_a_loss(double value) {
  if (std::isnan(value)) return "nan";
  return value > 0 ? "inf" : "-inf";
}

std::string whose(const std::string& name, int block) {
  if (name == "validation_loss") return "the validation loss";
  if (block == 0) return "the test loss";
  if (name == "synthesizer_loss")
    return fmt::format("the loss of the synthesizer above block {}", block);
  if (name == "input_loss")
    return fmt::format("the loss of the input model of block {}", block);
  return fmt::format("the loss of block {}", block);
}

}  // namespace

std::optional<DivergenceGuard::Loss> DivergenceGuard::loss_in(
    const Record& record) {
  NamedValues<double> losses;
  if (const auto train = record.as<records::Train>()) {
    if (train->loss) losses = {{"loss", *train->loss}};
  } else if (const auto lesson = record.as<records::Lesson>()) {
    losses = lesson->losses;
  } else if (const auto evaluation = record.as<records::Evaluation>()) {
    losses = {{"loss", evaluation->loss}};
    if (evaluation->validation_loss)
      losses.emplace_back("validation_loss", *evaluation->validation_loss);
  }
  if (losses.empty()) return std::nullopt;
  // The first that is none, or else the first.
  const auto worst = std::find_if(
      losses.begin(), losses.end(),
      [](const auto& loss) { return !std::isfinite(loss.second); });
  const auto& [name, value] = worst == losses.end() ? losses.front() : *worst;
  const auto place = record.read<records::BatchFields>();
  return Loss{.turn = place.turn,
              .block = place.block,
              .batch = place.batch,
              .name = name,
              .value = value};
}

void DivergenceGuard::recall(const Record& record) {
  const auto loss = loss_in(record);
  if (!loss || loss->block == 0 || !std::isfinite(loss->value)) return;
  const auto [at, is_new] = finite_.emplace(loss->block, loss->batch);
  if (!is_new) at->second = std::max(at->second, loss->batch);
}

void DivergenceGuard::write(const Record& record) {
  const auto loss = loss_in(record);
  if (!loss) return;
  if (std::isfinite(loss->value)) return recall(record);
  if (!first_ ||
      std::tie(loss->turn, loss->block) < std::tie(first_->turn, first_->block))
    first_ = loss;
  throw UserError("{} became {} in turn {}", whose(loss->name, loss->block),
                  not_a_loss(loss->value), loss->turn);
}

/// Number of turns after which the weights were sound, so far as losses tell;
/// -1: never. A finite loss of batch t was computed with the weights after t
/// turns. NaN goes upwards with the activations, so that a block knows of those
/// below.
std::int64_t DivergenceGuard::sound_turns(const Loss& loss) const {
  if (finite_.empty()) return -1;
  if (loss.block == 0) return std::min(finite_.rbegin()->second, loss.turn - 1);
  const auto own = finite_.find(loss.block);
  return own == finite_.end() ? -1 : own->second;
}

std::string DivergenceGuard::text_of(const Loss& loss) {
  return fmt::format("{} became {} {} turn {}", whose(loss.name, loss.block),
                     not_a_loss(loss.value), loss.block == 0 ? "after" : "in",
                     loss.turn);
}

void DivergenceGuard::checkpoint_not_finite(std::int64_t turn,
                                            const std::string& what) {
  if (!weights_) weights_ = Weights{turn, what};
  throw UserError("{} isn't finite after turn {}", what, turn);
}

namespace {

/// The last checkpoint of `sound_turns` turns or fewer; -1 and empty: none.
std::pair<std::int64_t, std::string> last_sound(const std::string& checkpoints,
                                                std::int64_t sound_turns) {
  const auto saved = find_checkpoints(checkpoints);
  const auto behind = saved.upper_bound(sound_turns);
  if (behind == saved.begin()) return {-1, ""};
  return *std::prev(behind);
}

std::string remedy_of(const std::string& bad_sample,
                      const std::string& checkpoint) {
  const std::string before =
      checkpoint.empty()
          ? "there is no checkpoint before"
          : fmt::format("the last checkpoint before is {}", checkpoint);
  if (bad_sample.empty())
    return fmt::format(
        "{}. Lower optimizer.lr, set optimizer.clip.norm, or "
        "train on with on_nan = 'continue'",
        before);
  return fmt::format(
      "{} is NaN or infinite: mend the file, or leave the sample "
      "out (no learning rate helps); {}",
      bad_sample, before);
}

}  // namespace

std::optional<records::Divergence> DivergenceGuard::found(
    const std::string& checkpoints,
    const FindBadSample& find_bad_sample) const {
  if (!first_ && !weights_) return std::nullopt;
  records::Divergence diverged{.loss =
                                   std::numeric_limits<double>::quiet_NaN()};
  std::string text;
  std::int64_t sound = 0;
  if (first_) {
    diverged.turn = first_->turn;
    diverged.block = first_->block;
    diverged.loss = first_->value;
    text = text_of(*first_);
    sound = sound_turns(*first_);
  } else {
    diverged.turn = weights_->turn;
    text = fmt::format("{} isn't finite after turn {}", weights_->what,
                       weights_->turn);
    sound = weights_->turn - 1;
  }
  const auto [turn, checkpoint] = last_sound(checkpoints, sound);
  const SuspectTurns suspects{
      .first = std::max<std::int64_t>(0, first_ ? sound : turn),
      .last = diverged.turn,
      .evaluated = first_ && first_->block == 0};
  const std::string sample =
      find_bad_sample ? find_bad_sample(suspects) : std::string();
  diverged.reason =
      fmt::format("diverged: {}; {}", text, remedy_of(sample, checkpoint));
  return diverged;
}

}  // namespace sluice
