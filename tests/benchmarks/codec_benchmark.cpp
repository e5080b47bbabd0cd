// How fast the loops of the codec int8 are on one core of this machine, over
// memcpy of the same float32 numbers.
//
// usage: codec_benchmark [PASSES]
//
// In a pass each loop runs once over each size, one after the other, so that
// all see the same machine; a ratio is the median of those taken within the
// passes, its range in brackets.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lib/kernels/codecs.h"
#include "tests/benchmarks/ratios.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kRows = 64;
constexpr std::int64_t kLengths[] = {256, 16384, 65536};
constexpr std::int64_t kNumbersOfAPass = 1 << 24;

struct Lane {
  std::string name;
  std::function<void()> run;
  std::vector<double> rates = {};  // GB of float32 per second
};

/// What the loops read and write.
struct Arrays {
  explicit Arrays(std::int64_t length)
      : rows(kRows),
        columns(length),
        count(rows * columns),
        values(static_cast<std::size_t>(count)),
        back(values.size()),
        bytes(values.size()),
        scales(static_cast<std::size_t>(rows)) {
    std::mt19937_64 random(1);
    std::normal_distribution<float> normal;
    for (float& value : values) value = normal(random);
  }

  std::int64_t rows, columns, count;
  std::vector<float> values, back;
  std::vector<std::int8_t> bytes;
  std::vector<float> scales;
};

std::vector<Lane> lanes_over(Arrays& of) {
  const CodecKernels& cpu = cpu_codec_kernels();
  const auto lane = [](std::string name, std::function<void()> run) {
    return Lane{std::move(name), std::move(run)};
  };
  return {lane("memcpy",
               [&] {
                 std::memcpy(of.back.data(), of.values.data(),
                             sizeof(float) * of.values.size());
               }),
          lane("int8, encode",
               [&] {
                 cpu.encode_int8(of.values.data(), of.rows, of.columns,
                                 of.bytes.data(), of.scales.data(), nullptr);
               }),
          lane("int8, decode", [&] {
            cpu.decode_int8(of.bytes.data(), of.scales.data(), of.rows,
                            of.columns, of.back.data(), nullptr);
          })};
}

double rate_of(const Lane& lane, std::int64_t count) {
  const std::int64_t times = std::max<std::int64_t>(1, kNumbersOfAPass / count);
  const Clock::time_point start = Clock::now();
  for (std::int64_t i = 0; i < times; ++i) lane.run();
  const std::chrono::duration<double> seconds = Clock::now() - start;
  return 1e-9 * sizeof(float) * static_cast<double>(times * count) /
         seconds.count();
}

void print(const Lane& lane, const Lane& anchor) {
  Ratios ratios;
  for (std::size_t pass = 0; pass < lane.rates.size(); ++pass)
    ratios.values.push_back(lane.rates[pass] / anchor.rates[pass]);
  fmt::print("{:<14} {:6.2f} = {}\n", lane.name, median(lane.rates),
             ratios.text_with_range());
}

void compare(std::int64_t length, int passes) {
  Arrays arrays(length);
  std::vector<Lane> lanes = lanes_over(arrays);
  for (int pass = -1; pass < passes; ++pass)  // the first only warms up
    for (Lane& lane : lanes) {
      const double rate = rate_of(lane, arrays.count);
      if (pass >= 0) lane.rates.push_back(rate);
    }
  fmt::print("\n{} rows of {} numbers: GB/s of float32 = of memcpy\n", kRows,
             length);
  for (const Lane& lane : lanes) print(lane, lanes.front());
}

}  // namespace
}  // namespace sluice

int main(int count, char** arguments) {
  const int passes = count > 1 ? std::max(1, std::atoi(arguments[1])) : 11;
  for (const std::int64_t length : sluice::kLengths)
    sluice::compare(length, passes);
}
