// How much two processes gain over one: the efficiency
//   E = t(one process, one thread) / (2 t(two processes, one thread each))
// of the same method and network in two balanced blocks, where t is the time of
// a turn once the pipe is full; and, with `threads`, the gain over one process
// with two intra-op threads, beside r, what that process gains from its second
// thread. All are ratios of runs that
// were made one after another, in turns: medians over the rounds, with their
// quartiles. `balance` is the work of the block that has less over that of the
// other, in one process: no E can be above (1 + balance) / 2.
//
// usage: efficiency_benchmark [ROUNDS] [CASE|all] [threads]
// default: 5 rounds, all cases
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

/// The first ten don't count.
constexpr int kTurns = 51;

struct Question {
  int rounds = 5;
  std::string only = {};  ///< a case; empty: all
  bool with_threads = false;
};

void measure(const BlockCase& of, const char* method, const Question& asked,
             const std::string& root) {
  write_case(of, root);
  const std::string boundary =
      fmt::format("{} {} turns={}", method_of(of, method),
                  balanced_for(of, method), kTurns);
  Ratios efficiency, gain, of_threads, balance;
  for (int round = 0; round < asked.rounds; ++round) {
    const MeasuredRun one =
        train_case(root, boundary + " engine=virtual threads=1");
    const MeasuredRun two =
        train_case(root, boundary + " engine=processes threads=1");
    efficiency.values.push_back(one.seconds / (2 * two.seconds));
    balance.values.push_back(one.balance);
    if (!asked.with_threads) continue;
    const MeasuredRun threads =
        train_case(root, boundary + " engine=virtual threads=2");
    gain.values.push_back(threads.seconds / two.seconds);
    of_threads.values.push_back(one.seconds / threads.seconds);
  }
  fmt::print("{:<5} {:<16} {:<18} {:<18}", of.name, method, efficiency.text(),
             balance.text());
  if (asked.with_threads)
    fmt::print(" {:<18} {:<18} {:.2f}", gain.text(), of_threads.text(),
               1.9 / median(of_threads.values));
  fmt::print("\n");
  std::fflush(stdout);
}

void run(const Question& asked) {
  const CaseFolder folder(asked.only);
  fmt::print(
      "{:<5} {:<16} {:<18} {:<18} {}\n", "case", "method", "E", "balance",
      asked.with_threads ? "over two threads   r of two threads   aim: 1.9 / r"
                         : "");
  for (const BlockCase& each : block_cases())
    for (const char* method : kMethods)
      if (asked.only.empty() || each.name == asked.only)
        measure(each, method, asked, folder.path());
}

Question question(int count, char** arguments) {
  Question asked;
  if (count > 1) asked.rounds = std::max(1, std::stoi(arguments[1]));
  if (count > 2 && std::string_view(arguments[2]) != "all")
    asked.only = arguments[2];
  asked.with_threads = count > 3 && std::string_view(arguments[3]) == "threads";
  return asked;
}

}  // namespace
}  // namespace sluice

int main(int count, char** arguments) {
  try {
    sluice::run(sluice::question(count, arguments));
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return EXIT_FAILURE;
  }
}
