#include "experiments/runs/watch/watch.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <sstream>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "experiments/config/files/json_file.h"
#include "experiments/runs/sinks/status_file.h"
#include "lib/base/error.h"
#include "lib/base/files/folder_lock.h"
#include "lib/base/files/read_file.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::chrono::seconds kWatchPeriod(1);
constexpr std::chrono::seconds kLinePeriod(10);
constexpr std::uint64_t kMostStatusBytes = std::uint64_t{64} << 20;
/// Age of a block's last status from which `watch` names the block.
constexpr double kSilence = 5;  // s

/// A state that no run can write of itself.
constexpr const char* kDied = "died";

Json parsed(const std::string& status) {
  Json json = Json::parse(status, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("blocks"))
    throw UserError("status.json: is not what a run writes");
  return json;
}

/// "-" where there is none; a text ("nan") as it is.
std::string number(const Json& of, const char* name, const char* form) {
  const auto found = of.find(name);
  if (found == of.end()) return "-";
  if (found->is_string()) return found->get<std::string>();
  return fmt::format(fmt::runtime(form), found->get<double>());
}

std::string percent(const Json& of, const char* name) {
  const auto found = of.find(name);
  if (found == of.end() || !found->is_number()) return "-";
  return fmt::format("{:.1f} %", 100 * found->get<double>());
}

std::string bytes(const Json& of, const char* name) {
  const double value = of.value(name, 0.0);
  if (value >= 1 << 20) return fmt::format("{:.1f}M", value / (1 << 20));
  if (value >= 1 << 10) return fmt::format("{:.0f}k", value / (1 << 10));
  return fmt::format("{:.0f}", value);
}

/// Name of a block: "2", or of replica 3 "2.3".
std::string name_of(const Json& block) {
  const int number = block.value("block", 0);
  return block.contains("replica")
             ? fmt::format("{}.{}", number, block.value("replica", 0))
             : std::to_string(number);
}

/// The block that waits least; empty where there is only one.
std::string bottleneck(const Json& blocks) {
  if (blocks.size() < 2) return "";
  const auto least = std::min_element(
      blocks.begin(), blocks.end(), [](const Json& left, const Json& right) {
        return left.value("waiting_share", 0.0) <
               right.value("waiting_share", 0.0);
      });
  return name_of(*least);
}

std::string head(const Json& run, double now) {
  const double per_epoch = run.value("turns_per_epoch", 1.0);
  const double ahead = run.value("turns_ahead", 0.0);
  double turn = 0;
  double rate = 0;
  for (const Json& block : run.at("blocks")) {
    turn = std::max(turn, block.value("turn", 0.0));
    const double own = block.value("turns_per_second", 0.0);
    rate = rate == 0 ? own : std::min(rate, own);
  }
  const bool has_end = run.contains("turns");
  // A run that is done has done all turns, of which not every one is logged.
  if (has_end && run.value("state", "") == "done")
    turn = run.value("turns", 0.0) - 1;
  const double left = run.value("turns", 0.0) - turn - 1;
  const std::string place =
      has_end ? fmt::format("epoch {:.2f} of {:.2f}",
                            (turn + 1 + ahead) / per_epoch,
                            (run.value("turns", 0.0) + ahead) / per_epoch)
              : fmt::format("turn {:.0f}", turn);
  std::string line = fmt::format("{}, {:.0f} samples/s", place,
                                 rate * run.value("samples_per_turn", 0.0));
  if (has_end && run.value("state", "") == "running" && rate > 0)
    line += fmt::format(", {:.0f} s left", left / rate);
  if (run.contains("validation_loss"))
    line += fmt::format("\nvalidation loss {}, accuracy {}",
                        number(run, "validation_loss", "{:.4f}"),
                        percent(run, "validation_accuracy"));
  if (run.contains("test_loss"))
    line += fmt::format("; test loss {}, accuracy {}",
                        number(run, "test_loss", "{:.4f}"),
                        percent(run, "test_accuracy"));
  const double silent = now - run.value("written", now);
  std::string state = run.value("state", "");
  if (state == "running" && silent > kSilence)
    state = fmt::format("silent for {:.0f} s", silent);
  return fmt::format("{}: {}, engine {}: {}\n{}\n", run.value("name", ""),
                     run.value("method", ""), run.value("engine", ""), state,
                     line);
}

std::string row(const Json& block, const std::string& slowest, double now) {
  const double silent = now - block.value("heard", now);
  const std::string name = name_of(block);
  return fmt::format(
      "{:>5}  {:>8}  {:>9}  {:>8}  {:>7}  {:>7}  {:>5}  {:>5}  {:>4}{}", name,
      block.value("turn", 0), number(block, "loss", "{:.4f}"),
      percent(block, "accuracy"), number(block, "turns_per_second", "{:.1f}"),
      percent(block, "waiting_share"), bytes(block, "queue_below_bytes"),
      bytes(block, "queue_above_bytes"), number(block, "staleness", "{:.0f}"),
      silent > kSilence ? fmt::format("  {:.0f} s", silent)
      : name == slowest ? "  <"
                        : "");
}

std::string read_status(const std::string& folder) {
  if (!std::filesystem::exists(status_of_run(folder)))
    throw UserError(
        "{}: has no status.json: give the folder of a run that has begun",
        folder);
  return read_file(status_of_run(folder), kMostStatusBytes);
}

std::string page_of(const Json& run, double now, std::size_t width) {
  std::string page = head(run, now);
  page +=
      "block      turn       loss  accuracy  turns/s  waiting  below  above  "
      "stale\n";
  const std::string slowest = bottleneck(run.at("blocks"));
  const bool is_running = run.value("state", "") == "running";
  for (const Json& block : run.at("blocks"))
    page += row(block, slowest, is_running ? now : 0) + "\n";
  if (!slowest.empty())
    page +=
        "<  waits least: the others wait for it. below, above: bytes that "
        "wait for it\n";
  std::string cut;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);)
    cut += line.substr(0, width) + "\n";
  return cut;
}

}  // namespace

bool is_over(const std::string& status) {
  return parsed(status).value("state", "") != "running";
}

std::string status_page(const std::string& status, double now,
                        std::size_t width) {
  try {
    return page_of(parsed(status), now, width);
  } catch (const Json::exception& error) {
    throw UserError("status.json: is damaged ({})", reason_of(error));
  }
}

std::string as_it_is(const std::string& status, const std::string& folder,
                     double now) {
  Json run = parsed(status);
  if (run.value("state", "") != "running") return status;
  const LockStatus seen = look_at_lock(folder);
  if (seen.is_held) return status;
  // Programs of earlier versions took no lock.
  const bool is_silent = now - run.value("written", now) > kHeartbeatIsOld;
  if (!seen.holder && !is_silent) return status;
  run["state"] = kDied;
  return run.dump();
}

namespace {

/// Status of a run, looked at twice: it may have ended in between, and said so.
std::string status_of(const std::string& folder) {
  const double now = seconds_since_1970();
  std::string status = read_status(folder);
  if (as_it_is(status, folder, now) == status) return status;
  return as_it_is(read_status(folder), folder, now);
}

void say_died(const std::string& folder) {
  const LockStatus seen = look_at_lock(folder);
  fmt::print(
      "{} is no longer there, and the run hasn't come to its end; to go on "
      "from its last checkpoint: sluice run --resume {}\n",
      seen.holder ? describe(*seen.holder) : "Its process", folder);
}

}  // namespace

void watch(const std::string& folder, bool once) {
  const bool is_terminal = ::isatty(STDOUT_FILENO) == 1;
  while (true) {
    const std::string status = status_of(folder);
    const std::string page = status_page(status, seconds_since_1970());
    // Home, and clear what is below: no flicker.
    fmt::print("{}{}{}", is_terminal && !once ? "\033[H\033[J" : "", page,
               is_terminal || once ? "" : "\n");
    std::fflush(stdout);
    if (parsed(status).value("state", "") == kDied) say_died(folder);
    if (once || is_over(status)) return;
    std::this_thread::sleep_for(is_terminal ? kWatchPeriod : kLinePeriod);
  }
}

}  // namespace sluice
