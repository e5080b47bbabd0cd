// Plug-ins that end the process they are in: a run that did not reach its end
// has another status than 0, and says so.
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/plugins/plugin_program.h"

namespace sluice::leaving_plugins_test {

using testing::HasSubstr;
using testing::Not;

struct Leaving {
  const char* name;
  const char* where;
  const char* by;
  const char* engine = "virtual";
  int status = 1;
  const char* says = "ended by a call of exit() before its command had";
};

void PrintTo(const Leaving& value, std::ostream* out) {
  *out << value.name;
}

class LeavingPlugin : public PluginProgram,
                      public testing::WithParamInterface<Leaving> {
 protected:
  /// A run whose plug-in leaves.
  Outcome leave(const std::string& where, const std::string& by,
                const std::string& engine) const {
    copy_of("leaves", "libleaves.so");
    const std::string config =
        write("leaves.toml",
              fmt::format("plugins = ['libleaves.so']\nblocks = 2\nturns = 8\n"
                          "batch_size = 8\nthreads = 1\nengine = '{}'\n"
                          "data = {{name = 'leaving_data'}}\n"
                          "model = {{hidden = [8, 8]}}\n"
                          "boundary = {{policy = 'local_loss', head = {{name = "
                          "'leaving_head'}}}}\n",
                          engine));
    return shell(
        fmt::format("LEAVES={} BY={} timeout -s KILL 120 {} run {} "
                    "--dir {}",
                    where, by, SLUICE_PROGRAM, config, path("run")));
  }
};

TEST_P(LeavingPlugin, EndsARunWithAStatusAndALine) {
  const Leaving& leaving = GetParam();
  const Outcome outcome = leave(leaving.where, leaving.by, leaving.engine);
  EXPECT_EQ(outcome.status, leaving.status) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr(leaving.says));
}

INSTANTIATE_TEST_SUITE_P(
    Places, LeavingPlugin,
    testing::Values(
        Leaving{"ExitInAnInitialiser", "initialiser", "exit"},
        Leaving{"ExitInTheRegistration", "registration", "exit"},
        Leaving{"ExitInATurn", "turn", "exit"},
        Leaving{"ExitInATurnOfAThread", "turn", "exit", "threads"},
        Leaving{"ExitInATurnOfAWorker", "turn", "exit", "processes"},
        Leaving{"QuickExit", "turn", "quick_exit"},
        Leaving{"UnderscoreExit", "turn", "_exit"},
        Leaving{"UnderscoreExitOfAWorker", "turn", "_exit", "processes"},
        Leaving{"CapitalExit", "registration", "_Exit"},
        Leaving{"ExitWithAnotherStatus", "turn", "exit_3", "virtual", 3},
        Leaving{"FaultInAnInitialiser", "initialiser", "fault", "virtual", 1,
                "libleaves.so: the process was ended by a fault while"},
        Leaving{"FaultInTheRegistration", "registration", "fault", "virtual", 1,
                "libleaves.so: the process was ended by a fault while"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_F(LeavingPlugin, ThatStaysIsARunAsAnyOther) {
  const Outcome outcome = leave("nowhere", "exit", "processes");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, Not(HasSubstr("exit()")));
}

}  // namespace sluice::leaving_plugins_test
