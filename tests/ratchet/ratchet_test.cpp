// Issue 18, item 15: a ratchet on what a turn costs beside its arithmetic.
// Times are noisy, these counts are not: of each block of each net under each
// method, per turn, when the pipe is full. The limits are what was counted
// last; a change that needs less should lower them, one that needs more has to
// say why.
//
// SLUICE_RATCHET=print writes all rows as they are now.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "experiments/config/experiment.h"
#include "experiments/config/files/toml.h"
#include "experiments/config/reading/read_experiment.h"
#include "experiments/runs/seats/assembly.h"
#include "lib/base/by_block.h"
#include "lib/base/messages/channel_around.h"
#include "lib/base/random.h"
#include "lib/engines/virtual_crew.h"
#include "tests/ratchet/limits.h"
#include "tests/ratchet/operations.h"

namespace sluice::ratchet_test {

constexpr std::int64_t kFirst = 6;  ///< turn that is counted
constexpr std::int64_t kTurns = 10;

struct Net {
  std::string_view name;
  std::string_view head;
  std::string_view config;
};

constexpr Net kNets[] = {
    {"quickstart", "predsim",
     "blocks = 2\nbatch_size = 16\nmodel = {name = 'small_conv', batch_norm = "
     "true}\noptimizer = {name = 'adam', lr = 1e-3}\n"},
    {"conv", "linear",
     "blocks = ['0', '1-']\nbatch_size = 8\nmodel = {name = 'small_conv', "
     "channels = [128, 32, 256], hidden = 0, batch_norm = true}\n"
     "optimizer = {name = 'sgd', lr = 0.01, momentum = 0.9}\n"},
    {"mlp", "linear",
     "blocks = ['0-1', '2-']\nbatch_size = 16\nmodel = {name = 'mlp', hidden = "
     "[1024, 1024, 1024]}\noptimizer = {name = 'adam', lr = 1e-4}\n"},
    {"gpt", "vocabulary",
     "blocks = ['0-2', '3-']\nbatch_size = 4\nmodel = {name = 'gpt', layers = "
     "4, width = 128, heads = 4}\noptimizer = {name = 'adamw', lr = 1e-4}\n"
     "data = {name = 'text', file = 'TEXT', context = 64, prefetch = 0}\n"}};

/// Counts what is sent.
class CountedSender final : public SenderAround {
 public:
  CountedSender(std::unique_ptr<Sender> inner, std::int64_t& sent)
      : SenderAround(std::move(inner)), sent_(sent) {}
  void send(Message message) override {
    ++sent_;
    inner().send(std::move(message));
  }

 private:
  std::int64_t& sent_;
};

std::string text_file() {
  std::string path = std::filesystem::temp_directory_path() / "sluice-XXXXXX";
  const int file = ::mkstemp(path.data());
  if (file >= 0) ::close(file);
  KeyedRandom random(1);
  std::ofstream out(path, std::ios::binary);
  for (int i = 0; i < (1 << 14); ++i)
    out << static_cast<char>(random.below(65));
  return path;
}

Experiment experiment_of(const Net& net, std::string_view method,
                         const std::string& text) {
  std::string config(net.config);
  if (const auto at = config.find("TEXT"); at != config.npos)
    config.replace(at, 4, text);
  else
    config += "data = {train = 320, test = 64, prefetch = 0}\n";
  std::string boundary = fmt::format("policy = '{}'", method);
  if (method == "local_loss")
    boundary += fmt::format(", head = {{name = '{}'}}", net.head);
  if (method == "features_replay") boundary += ", statistics = 'forward'";
  config += fmt::format("threads = 1\nturns = {}\nboundary = {{{}}}\n", kTurns,
                        boundary);
  return read_experiment(parse_toml(config, "ratchet"), "");
}

/// By block, per turn, rounded up.
std::vector<PerTurn> counted(const Experiment& experiment) {
  prepare_process(experiment);
  std::vector<std::int64_t> sent(2);
  std::vector<Ends> ends = memory_ends(experiment);
  ends[0].above.sender =
      std::make_unique<CountedSender>(std::move(ends[0].above.sender), sent[0]);
  ends[1].below.sender =
      std::make_unique<CountedSender>(std::move(ends[1].below.sender), sent[1]);
  Seats seats;
  for (int block = 1; block <= 2; ++block)
    seats.push_back(make_seat(experiment, block,
                              std::move(by_block(ends, block)), nullptr, {}));
  RunLength length = experiment.length;
  length.evaluation_batches = 0;
  Coordinator coordinator(length, 2, nullptr, nullptr);

  std::vector<Operations> operations(2);
  std::vector<std::int64_t> messages(2);
  const OperationCount counter;
  Operations before = counter.so_far();
  std::vector<std::int64_t> sent_before = sent;
  const auto count = [&](const TimedAction& timed) {
    const auto block = static_cast<std::size_t>(timed.seat) - 1;
    if (timed.action.turn >= kFirst && timed.action.turn < kTurns) {
      operations[block] += counter.so_far() - before;
      messages[block] += sent[block] - sent_before[block];
    }
    before = counter.so_far();
    sent_before = sent;
  };
  VirtualCrew crew(seats,
                   {.plans = experiment.plans,
                    .capacities = experiment.capacities,
                    .threads = 1,
                    .watch = count},
                   events_for(coordinator));
  run_to_end(crew, coordinator);
  std::vector<PerTurn> result;
  const auto per_turn = [](std::int64_t value, std::int64_t unit = 1) {
    const std::int64_t parts = (kTurns - kFirst) * unit;
    return (value + parts - 1) / parts;
  };
  for (std::size_t i = 0; i < 2; ++i)
    result.push_back({.allocations = per_turn(operations[i].allocations),
                      .copied_kib = per_turn(operations[i].copied_bytes, 1024),
                      .layout_copies = per_turn(operations[i].layout_copies),
                      .messages = per_turn(messages[i])});
  return result;
}

std::string to_text(const PerTurn& count) {
  return fmt::format("{{{}, {}, {}, {}}}", count.allocations, count.copied_kib,
                     count.layout_copies, count.messages);
}

void expect_within(const PerTurn& count, const PerTurn& limit,
                   const std::string& which) {
  // Scratch memory of its libraries differs by processor.
  EXPECT_LE(count.allocations, limit.allocations * 11 / 10 + 2) << which;
  EXPECT_LE(count.copied_kib, limit.copied_kib) << which;
  EXPECT_LE(count.layout_copies, limit.layout_copies) << which;
  EXPECT_LE(count.messages, limit.messages) << which;
}

class Ratchet : public testing::TestWithParam<Net> {};

std::string row_of(const Net& net, std::string_view method,
                   const std::vector<PerTurn>& counts) {
  return fmt::format("{{\"{}\", \"{}\", {}, {}}},", net.name, method,
                     to_text(counts[0]), to_text(counts[1]));
}

void print_rows(const Net& net, const std::string& text) {
  for (const char* method :
       {"local_loss", "backprop", "delayed_gradient", "features_replay",
        "fully_decoupled", "synthetic_gradient"})
    std::printf(
        "%s\n",
        row_of(net, method, counted(experiment_of(net, method, text))).c_str());
}

TEST_P(Ratchet, NoTurnCostsMoreThanItDid) {
  const std::string text = text_file();
  if (std::getenv("SLUICE_RATCHET") != nullptr) print_rows(GetParam(), text);
  int rows = 0;
  for (const Limits& limit : limits()) {
    if (limit.net != GetParam().name) continue;
    ++rows;
    const auto counts = counted(experiment_of(GetParam(), limit.method, text));
    const std::string row = row_of(GetParam(), limit.method, counts);
    expect_within(counts[0], limit.below, row);
    expect_within(counts[1], limit.above, row);
  }
  EXPECT_GT(rows, 0);
  std::filesystem::remove(text);
}

INSTANTIATE_TEST_SUITE_P(Nets, Ratchet, testing::ValuesIn(kNets),
                         [](const testing::TestParamInfo<Net>& tested) {
                           return std::string(tested.param.name);
                         });

TEST(OperationCount, SeesACopyIntoAnotherLayout) {
  const at::Tensor maps = at::ones({2, 4, 3, 3});
  const OperationCount counter;
  const at::Tensor copy = maps.clone();
  EXPECT_EQ(counter.so_far().layout_copies, 0);
  const at::Tensor other = maps.contiguous(at::MemoryFormat::ChannelsLast);
  EXPECT_EQ(counter.so_far().layout_copies, 1);
  EXPECT_EQ(counter.so_far().copied_bytes, 2 * 2 * 4 * 3 * 3 * 4);
  EXPECT_EQ(counter.so_far().allocations, 2);
  EXPECT_FALSE(copy.is_same(other));
}

}  // namespace sluice::ratchet_test
