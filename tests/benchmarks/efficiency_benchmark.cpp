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
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "tests/benchmarks/block_cases.h"
#include "tests/benchmarks/ratios.h"

namespace sluice {
namespace {

constexpr const char* kMethods[] = {"local_loss", "delayed_gradient",
                                    "fully_decoupled", "2bw"};

/// So many that the two turns in which the pipe fills and empties don't count.
constexpr int kTurns = 240;

void measure(const BlockCase& of, const char* method, int rounds,
             const std::string& root) {
  write_case(of, root);
  const std::string boundary =
      fmt::format("{} {} turns={}", method_of(of, method),
                  balanced_for(of, method), kTurns);
  Ratios efficiency, gain, of_threads, balance;
  for (int round = 0; round < rounds; ++round) {
    const MeasuredRun one =
        train_case(root, boundary + " engine=virtual threads=1");
    const MeasuredRun two =
        train_case(root, boundary + " engine=processes threads=1");
    const MeasuredRun threads =
        train_case(root, boundary + " engine=virtual threads=2");
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
  const CaseFolder folder(only);
  const std::string& root = folder.path();
  fmt::print("{:<5} {:<16} {:<18} {:<18} {:<18} {:<18} {}\n", "case", "method",
             "E", "balance", "over two threads", "r of two threads",
             "aim: 1.9 / r");
  for (const BlockCase& each : block_cases())
    for (const char* method : kMethods)
      if (only.empty() || each.name == only)
        measure(each, method, rounds, root);
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
