#include "experiments/runs/sinks/console.h"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "experiments/config/tables/lengths.h"
#include "experiments/data/found.h"
#include "experiments/runs/seats/assembly.h"
#include "experiments/runs/seats/ways.h"
#include "lib/base/files/user_text.h"
#include "lib/metrics/accuracy_text.h"

namespace sluice {
namespace {

constexpr double kTerminalPeriod = 0.1;  // s
constexpr double kPlainPeriod = 10;      // s

double seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

std::string evaluation_text(const records::Evaluation& evaluation) {
  std::string text = fmt::format("epoch {:.2f}  ", evaluation.epoch);
  if (evaluation.validation_loss)
    text +=
        fmt::format("validation loss {:.4f}{}{}; ", *evaluation.validation_loss,
                    with_accuracy(evaluation.validation_accuracy),
                    with_r2(evaluation.validation_r2));
  if (evaluation.training_loss)
    text += fmt::format("training loss {:.4f}{}{}; ", *evaluation.training_loss,
                        with_accuracy(evaluation.training_accuracy),
                        with_r2(evaluation.training_r2));
  return text + fmt::format("test loss {:.4f}{}{}{}", evaluation.loss,
                            with_accuracy(evaluation.accuracy),
                            with_r2(evaluation.r2),
                            with_bits(evaluation.bits_per_byte));
}

std::string early_stop_text(const records::EarlyStop& stop) {
  return fmt::format(
      "Early stop after turn {}: the {} {} has not got better than {} (turn "
      "{}) in {} evaluation{}",
      stop.turn, stop.split, stop.measure,
      stop.measure == "loss" ? fmt::format("{:.4f}", stop.best)
                             : fmt::format("{:.2f} %", 100 * stop.best),
      stop.best_turn, stop.without_progress,
      stop.without_progress == 1 ? "" : "s");
}

/// A longer line would wrap, and could not be written over.
std::size_t terminal_width() {
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
  return known && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

Console::Console(const Experiment& experiment, std::int64_t first_turn)
    : turns_(experiment.length.turns),
      epochs_(epochs_of(experiment)),
      batch_size_(experiment.batch_size),
      tokens_per_sample_(experiment.model.sample.is_text
                             ? experiment.model.sample.shape.at(0)
                             : 0),
      is_terminal_(::isatty(STDOUT_FILENO) == 1),
      started_(Clock::now()),
      shown_(started_),
      first_turn_(first_turn),
      turn_(first_turn) {
  put("{}: {} in {} block{}, engine {}\n", experiment.name,
      method_of(experiment), experiment.blocks(),
      experiment.blocks() == 1 ? "" : "s", name_of(experiment.engine));
  if (experiment.data) put("{}\n", found_line(*experiment.data));
  if (first_turn > 0) put("continued after turn {}\n", first_turn);
  if (const std::int64_t left = batches_left_over(experiment); left > 0)
    put("epochs = {}: it ends after {:.2f}, for the last {} of their batches "
        "{} fewer than the {} replicas, which have one each in a turn\n",
        experiment.epochs, epochs_.at(turns_), left, left == 1 ? "is" : "are",
        experiment.replicas.count);
}

Console::~Console() {
  if (line_is_open_) put("\n");
}

std::string Console::rate() const {
  const double passed = std::max(1e-9, seconds(Clock::now() - started_));
  const auto done = static_cast<double>(turn_ + 1 - first_turn_);
  const double left = passed / done * static_cast<double>(turns_ - turn_ - 1);
  const double samples = done * static_cast<double>(batch_size_) / passed;
  const std::string tokens =
      tokens_per_sample_ == 0
          ? ""
          : fmt::format(", {:.0f} tokens/s",
                        samples * static_cast<double>(tokens_per_sample_));
  return fmt::format("{:.0f} samples/s{}, {:.0f} s left", samples, tokens,
                     std::max(0.0, left));
}

std::string Console::progress() const {
  std::string figures;
  for (const auto& [block, train] : latest_) {
    if (!train.loss) continue;
    figures += fmt::format(" [{}] {:.3f}", block, *train.loss);
    if (train.accuracy)
      figures += fmt::format(" {:.0f} %", 100 * *train.accuracy);
  }
  return fmt::format("epoch {:.2f}/{:.2f}  loss{}  {}", epochs_.at(turn_ + 1),
                     epochs_.at(turns_), figures, rate());
}

void Console::show(const std::string& line) {
  if (is_terminal_) {
    put("\r\033[K{}", line.substr(0, terminal_width()));
    line_is_open_ = true;
  } else {
    put("{}\n", line);
  }
}

void Console::leave(const std::string& line) {
  put("{}{}\n", is_terminal_ ? "\r\033[K" : "", line);
  line_is_open_ = false;
}

void Console::write(const Record& record) {
  if (const auto evaluation = record.as<records::Evaluation>())
    leave(evaluation_text(*evaluation));
  if (const auto ways = record.as<records::Ways>()) leave(ways_text(*ways));
  if (const auto stop = record.as<records::EarlyStop>())
    leave(early_stop_text(*stop));
  if (const auto injection = record.as<records::Injection>())
    leave("Injected: " + injection->fault);
  if (const auto lost = record.as<records::LostReplica>())
    leave(fmt::format(
        "Replica {} is lost ({}): the others go on without it, and {}",
        lost->replica, lost->reason,
        lost->turns_left_out > 0
            ? fmt::format("{} turns of its share are left out",
                          lost->turns_left_out)
            : "do its work"));
  if (const auto joined = record.as<records::JoinedReplica>())
    leave(fmt::format("Replica {} joins the run, from turn {} on",
                      joined->replica, joined->turn));
  if (const auto returned = record.as<records::ReturnedReplica>())
    leave(fmt::format("Replica {} is back after turn {}, with {}",
                      returned->replica, returned->turn,
                      returned->weights == "own"
                          ? "what it had"
                          : "the weights of the others" +
                                (returned->turns_left_out > 0
                                     ? fmt::format(": {} turns of its share "
                                                   "were left out",
                                                   returned->turns_left_out)
                                     : "")));
  if (const auto restart = record.as<records::Restart>()) {
    turn_ = restart->turn;
    leave(fmt::format("Restart {}: {}. Back to turn {}: turns done again: {}",
                      restart->restart, restart->reason, turn_,
                      restart->lost_turns));
  }
  const auto train = record.as<records::Train>();
  // Replica 1 stands for all replicas.
  if (!train || train->replica.value_or(1) > 1) return;
  latest_[train->block] = *train;
  turn_ = std::max(turn_, std::min(turns_ - 1, train->turn));
  const auto now = Clock::now();
  if (seconds(now - shown_) < (is_terminal_ ? kTerminalPeriod : kPlainPeriod))
    return;
  shown_ = now;
  show(progress());
}

}  // namespace sluice
