// How much two processes gain over one: the efficiency
//   E = t(one process, one thread) / (2 t(two processes, one thread each))
// of the same method and network in two balanced blocks, where t is the time of
// a batch; and the gain over one process with two intra-op threads, beside r,
// what that process gains from its second thread. All are ratios of runs that
// were made one after another, in turns: medians over the rounds, with their
// quartiles. `balance` is the work of the block that has less over that of the
// other, in one process: no E can be above (1 + balance) / 2.
//
// usage: efficiency_benchmark [ROUNDS] [CASE]     default: 5 rounds, all cases
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "lib/base/error.h"
#include "lib/base/random.h"
#include "lib/metrics/record.h"
#include "tests/benchmarks/ratios.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

struct Case {
  std::string_view name;
  std::string_view config;  ///< TOML lines; ROOT is the folder of data files
  std::string_view head = "linear";  ///< of local_loss
};

// The first layer needs no gradient of its input, so block 1 has more to it.
constexpr Case kCases[] = {
    {"mlp",
     "batch_size = 256\nturns = 100\nblocks = ['0-3', '4-']\n"
     "data = {name = 'drawn_digits', train = 4096, test = 128}\n"
     "model = {name = 'mlp', hidden = [1152, 1024, 1024, 1024, 1024, 1024, "
     "1024, 1024]}\n"
     "optimizer = {name = 'sgd', lr = 0.01, momentum = 0.9}\n"},
    {"conv",
     "batch_size = 64\nturns = 48\nblocks = ['0-6', '7-']\n"
     "data = {name = 'drawn_digits', train = 4096, test = 64}\n"
     "model = {name = 'resnet', depth = 32}\n"
     "optimizer = {name = 'sgd', lr = 0.01, momentum = 0.9}\n"},
    {"gpt",
     "batch_size = 16\nturns = 60\nblocks = ['0-2', '3-']\n"
     "data = {name = 'text', file = 'ROOT/text', context = 64}\n"
     "model = {name = 'gpt', layers = 4, width = 128, heads = 4}\n"
     "optimizer = {name = 'adamw', lr = 1e-4}\n",
     "vocabulary"},
};

constexpr const char* kMethods[] = {"local_loss", "fully_decoupled"};

void write_text(const std::string& path) {
  constexpr int kBytes = 1 << 16;
  KeyedRandom random(1);
  std::ofstream file(path, std::ios::binary);
  for (int i = 0; i < kBytes; ++i) file << static_cast<char>(random.below(65));
}

struct Measured {
  double seconds = 0;  ///< of a sample
  double balance = 0;
};

/// The work of the block that has less, over the other's.
double balance_of(const std::vector<double>& work) {
  return *std::min_element(work.begin(), work.end()) /
         *std::max_element(work.begin(), work.end());
}

Measured read_run(const std::string& folder) {
  std::ifstream file(folder + "/metrics.jsonl");
  Measured measured;
  std::vector<double> work;
  for (std::string line; std::getline(file, line);) {
    const Record record = record_from_json(line);
    if (record.text("kind") == "summary")
      measured.seconds = 1 / record.number("samples_per_second", 0);
    if (record.text("kind") == "block")
      work.push_back(record.number("forward_s", 0) +
                     record.number("backward_s", 0) +
                     record.number("update_s", 0));
  }
  if (work.size() != 2 || !std::isfinite(measured.seconds))
    throw UserError("{}/metrics.jsonl doesn't say how long it took", folder);
  measured.balance = balance_of(work);
  return measured;
}

/// One run of the case.
Measured train(const std::string& root, const std::string& boundary,
               const char* engine) {
  const std::string command = fmt::format(
      "{} run {}/case.toml --dir {}/run --overwrite evaluate_every=0 "
      "log_every=1000000 trace.turns=0 {} {} > {}/log 2>&1",
      SLUICE_PROGRAM, root, root, boundary, engine, root);
  if (std::system(command.c_str()) != 0)
    throw UserError("this failed, see {}/log: {}", root, command);
  return read_run(root + "/run");
}

void measure(const Case& of, const char* method, int rounds,
             const std::string& root) {
  std::string config(of.config);
  if (const auto at = config.find("ROOT"); at != config.npos)
    config.replace(at, 4, root);
  std::ofstream(root + "/case.toml") << config;
  std::string boundary = fmt::format("boundary.policy={}", method);
  if (boundary.ends_with("local_loss"))
    boundary += fmt::format(" boundary.head.name={}", of.head);
  Ratios efficiency, gain, of_threads, balance;
  for (int round = 0; round < rounds; ++round) {
    const Measured one = train(root, boundary, "engine=virtual threads=1");
    const Measured two = train(root, boundary, "engine=processes threads=1");
    const Measured threads = train(root, boundary, "engine=virtual threads=2");
    efficiency.values.push_back(one.seconds / (2 * two.seconds));
    gain.values.push_back(threads.seconds / two.seconds);
    of_threads.values.push_back(one.seconds / threads.seconds);
    balance.values.push_back(one.balance);
  }
  fmt::print("{:<5} {:<16} {:<18} {:<18} {:<18} {:<18} {:.2f}\n", of.name,
             method, efficiency.text(), balance.text(), gain.text(),
             of_threads.text(), 1.9 / median(of_threads.values));
  std::fflush(stdout);
}

void run(int rounds, const std::string& only) {
  const auto is_it = [&](const Case& each) { return each.name == only; };
  if (!only.empty() &&
      std::none_of(std::begin(kCases), std::end(kCases), is_it))
    throw UserError("no case '{}'; there are: mlp, conv, gpt", only);
  std::string root = fs::temp_directory_path() / "sluice-efficiency-XXXXXX";
  if (::mkdtemp(root.data()) == nullptr)
    throw UserError("no folder can be made in {}",
                    fs::temp_directory_path().string());
  write_text(root + "/text");
  fmt::print("{:<5} {:<16} {:<18} {:<18} {:<18} {:<18} {}\n", "case", "method",
             "E", "balance", "over two threads", "r of two threads",
             "aim: 1.9 / r");
  for (const Case& each : kCases)
    for (const char* method : kMethods)
      if (only.empty() || each.name == only)
        measure(each, method, rounds, root);
  fs::remove_all(root);
}

}  // namespace
}  // namespace sluice

int main(int count, char** arguments) {
  try {
    const int rounds = count > 1 ? std::max(1, std::stoi(arguments[1])) : 5;
    sluice::run(rounds, count > 2 ? arguments[2] : "");
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return EXIT_FAILURE;
  }
}
