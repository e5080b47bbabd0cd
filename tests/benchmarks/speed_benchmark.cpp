// How fast one block trains by back-propagation, against loops that one would
// write by hand. All figures are ratios of times taken in one run, in turns;
// each is the median over the rounds, with its quartiles. The
// processes that are compared live side by side and make a few steps each in
// turns, while the others sleep.
//
// usage: speed_benchmark [ROUNDS] [CASE]     default: 15 rounds, all cases
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "lib/base/error.h"
#include "tests/benchmarks/noise_data.h"
#include "tests/benchmarks/ratios.h"
#include "tests/benchmarks/speed_training.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVariants[] = {"plain", "tuned", "sluice", "bf16",
                                     "matrix"};

void take_part(const std::string& variant, const SpeedCase& of,
               std::int64_t threads, const std::string& root) {
  Turns turns(variant == "matrix" ? 1 : of.steps);
  if (variant == "matrix") return multiply_matrices(threads, turns);
  if (variant == "plain") return train_plainly(of, threads, false, turns);
  if (variant == "tuned") return train_plainly(of, threads, true, turns);
  train_with_sluice(of, threads, variant == "bf16", root, turns);
}

void compare(const SpeedCase& of, std::int64_t threads, int rounds,
             const std::string& root) {
  Ratios over_plain, over_tuned, bf16, share;
  const double flops = 3 * 2 * forward_flops(of, root);
  std::map<std::string, Contestant> contestants;
  for (const char* variant : kVariants)
    contestants.try_emplace(
        variant, fmt::format("--take-part {} {} {} {}", variant, of.name,
                             threads, root));
  for (int round = 0; round < rounds; ++round) {
    std::map<std::string, double> seen;
    for (auto& [variant, contestant] : contestants)
      seen[variant] = contestant.take_turn();
    over_plain.values.push_back(seen["plain"] / seen["sluice"]);
    over_tuned.values.push_back(seen["tuned"] / seen["sluice"]);
    bf16.values.push_back(seen["sluice"] / seen["bf16"]);
    share.values.push_back(flops / seen["sluice"] /
                           (matrix_flops() / seen["matrix"]));
  }
  fmt::print("{:<6} {:>7}  {:<18} {:<18} {:<18} {:<18}\n", of.name, threads,
             over_plain.text(), over_tuned.text(), bf16.text(), share.text());
  std::fflush(stdout);
}

void compare_all(int rounds, const std::string& only) {
  std::string root = fs::temp_directory_path() / "sluice-speed-XXXXXX";
  if (::mkdtemp(root.data()) == nullptr)
    throw UserError("no folder can be made in {}",
                    fs::temp_directory_path().string());
  write_noise_data(root);
  fmt::print("{:<6} {:>7}  {:<18} {:<18} {:<18} {:<18}\n", "case", "threads",
             "over plain loop", "over tuned loop", "bf16 over fp32",
             "of matrix product");
  const std::int64_t cores = std::thread::hardware_concurrency();
  for (const SpeedCase& each : speed_cases()) {
    if (!only.empty() && each.name != only) continue;
    compare(each, 1, rounds, root);
    if (cores > 1) compare(each, cores, rounds, root);
  }
  fs::remove_all(root);
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() == 5 && arguments[0] == "--take-part") {
    take_part(arguments[1], speed_case(arguments[2]), std::stoll(arguments[3]),
              arguments[4]);
    return EXIT_SUCCESS;
  }
  const std::string only = arguments.size() > 1 ? arguments[1] : "";
  if (!only.empty()) speed_case(only);
  compare_all(arguments.empty() ? 15 : std::max(1, std::stoi(arguments[0])),
              only);
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace sluice

int main(int count, char** arguments) {
  try {
    return sluice::run({arguments + 1, arguments + count});
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return EXIT_FAILURE;
  }
}
