// precision = "bf16" on a processor without the instructions: oneDNN is held to
// an older one, as it would find it there.
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/experiments/helpers/program.h"

namespace sluice::precision_test {

using testing::HasSubstr;

class Bf16OnOldProcessor : public Program {
 protected:
  Outcome run(const std::string& more) const {
    std::string text;
    for (int i = 0; i < 400; ++i) text += "the quick brown fox ";
    const std::string config = write(
        "config.toml",
        fmt::format("turns = 4\nbatch_size = 8\nthreads = 1\nblocks = 2\n"
                    "precision = 'bf16'\n"
                    "model = {{name = 'lstm', width = 16}}\n"
                    "data = {{name = 'text', file = '{}', context = 8}}\n",
                    write("text.txt", text)));
    return shell(fmt::format("ONEDNN_MAX_CPU_ISA=AVX2 {} run {} --dir {} {}",
                             SLUICE_PROGRAM, config, path("run"), more));
  }
};

TEST_F(Bf16OnOldProcessor, LstmComputesInFp32AndSaysSo) {
  const Outcome outcome = run("");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("LSTM layers, which compute in fp32"));
}

}  // namespace sluice::precision_test
