// What a run says of its speed: tokens, and the share of the machine's peak.
#include <cmath>
#include <fstream>
#include <string>

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/runs/folder/machine_peak.h"
#include "lib/metrics/records.h"
#include "tests/experiments/helpers/program.h"

namespace sluice::rates_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(MachinePeak, IsThatOfALargeProductAndLeavesTheThreadsAlone) {
  const int threads = at::get_num_threads();
  const double peak = peak_of_cores();
  EXPECT_GT(peak, 1e8);
  EXPECT_LT(peak, 1e15);
  EXPECT_EQ(at::get_num_threads(), threads);
}

TEST(MachinePeak, IsComparedWithSixOperationsOfAMultiplyAdd) {
  Model model;
  model.layers.resize(2);
  model.layers[0].flops = 10;
  model.layers[1].flops = 5;
  EXPECT_DOUBLE_EQ(operations_per_sample(model), 6 * 15);
}

class Rates : public Program {
 protected:
  /// Summary of a run with that model and data; its output goes to text_.
  records::Summary summary_of(const std::string& config) {
    const Outcome outcome =
        sluice("run " + write("config.toml", config) + " --dir " + path("run"));
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    text_ = outcome.text;
    std::ifstream file(path("run/metrics.jsonl"));
    records::Summary summary;
    for (std::string line; std::getline(file, line);)
      if (const auto found = record_from_json(line).as<records::Summary>())
        summary = *found;
    return summary;
  }

  std::string text_;
};

TEST_F(Rates, RatesOfATextAreTokensToo) {
  std::string text;
  for (int i = 0; i < 3000; ++i) text += static_cast<char>('a' + i * i % 7);
  const records::Summary summary = summary_of(fmt::format(
      "turns = 400\nbatch_size = 8\nthreads = 1\nengine = 'virtual'\n"
      "evaluate_every = 0\nmodel = {{name = 'lstm', width = 64}}\n"
      "data = {{name = 'text', file = '{}', context = 16}}\n",
      write("text.txt", text)));
  ASSERT_TRUE(summary.tokens_per_second && summary.samples_per_second);
  EXPECT_NEAR(*summary.tokens_per_second / *summary.samples_per_second, 16,
              1e-6);
  EXPECT_THAT(text_, HasSubstr(fmt::format(" {:.0f} tokens/s",
                                           *summary.tokens_per_second)));
  ASSERT_EQ(summary.share_of_peak.has_value(), *summary.seconds >= 1);
  if (!summary.share_of_peak) return;
  EXPECT_GT(*summary.share_of_peak, 0);
  EXPECT_LT(*summary.share_of_peak, 1);
  EXPECT_THAT(text_, HasSubstr(" % of the machine's peak"));
}

TEST_F(Rates, RatesOfImagesAreSamplesAlone) {
  const records::Summary summary = summary_of(config_with("blocks = 1\n"));
  EXPECT_FALSE(summary.tokens_per_second.has_value());
  EXPECT_TRUE(summary.samples_per_second.has_value());
  EXPECT_THAT(text_, AllOf(HasSubstr(" samples/s"), Not(HasSubstr("tokens"))));
}

}  // namespace sluice::rates_test
