#include "experiments/program/completion.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "tests/experiments/helpers/program.h"

namespace sluice::completion_test {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

CommandWords command(const std::string& name,
                     const std::vector<std::string>& options, bool takes_keys) {
  CommandWords words;
  words.name = name;
  words.options = options;
  words.takes_keys = takes_keys;
  return words;
}

std::vector<CommandWords> commands() {
  std::vector<CommandWords> all = {
      command("run", {"--resume", "--dir"}, true), command("list", {}, false),
      command("help", {}, false), command("report", {"--out"}, false),
      command("data", {}, false)};
  all.back().commands = {command("order", {"--turns"}, true),
                         command("fetch", {}, false)};
  return all;
}

std::vector<std::string> ways(const std::vector<std::string>& words) {
  return completions(commands(), words);
}

TEST(Completion, CompletionOfCommandsAndOptions) {
  EXPECT_THAT(ways({"r"}), ElementsAre("run", "report"));
  EXPECT_THAT(ways({""}), ElementsAre("run", "list", "help", "report", "data"));
  EXPECT_THAT(ways({"run", "--r"}), ElementsAre("--resume"));
  EXPECT_THAT(ways({"data", ""}), ElementsAre("order", "fetch"));
  EXPECT_THAT(ways({"data", "order", "--"}), ElementsAre("--turns"));
  EXPECT_THAT(ways({"rnu", "--r"}), IsEmpty());
}

TEST(Completion, CompletionOfKeysBehindTheConfig) {
  EXPECT_THAT(ways({"run", "a.toml", "optimizer.l"}),
              ElementsAre("optimizer.lr=", "optimizer.lr_for_batch=",
                          "optimizer.lr_decay=", "optimizer.look_ahead="));
  EXPECT_THAT(ways({"run", "a.toml", "batch_size=3", "--resume", "eng"}),
              ElementsAre("engine="));
  EXPECT_THAT(ways({"data", "order", "a.toml", "seed"}), ElementsAre("seed="));
  // The shell completes the config's file.
  EXPECT_THAT(ways({"run", "optimizer.l"}), IsEmpty());
  EXPECT_THAT(ways({"report", "a", "optimizer.l"}), IsEmpty());
}

TEST(Completion, CompletionOfKeysOfOneBoundary) {
  EXPECT_THAT(ways({"run", "a.toml", "boundary.2.poli"}),
              ElementsAre("boundary.2.policy="));
  EXPECT_THAT(ways({"run", "a.toml", "boundary.last.policy=local"}),
              ElementsAre("boundary.last.policy=local_loss"));
  EXPECT_THAT(ways({"run", "a.toml", "model.layer"}),
              Not(Contains(HasSubstr("[]"))));
}

TEST(Completion, CompletionOfValues) {
  EXPECT_THAT(
      ways({"run", "a.toml", "engine="}),
      ElementsAre("engine=virtual", "engine=threads", "engine=processes"));
  EXPECT_THAT(ways({"run", "a.toml", "engine=t"}),
              ElementsAre("engine=threads"));
  EXPECT_THAT(ways({"run", "a.toml", "model.name=gp"}),
              ElementsAre("model.name=gpt"));
  EXPECT_THAT(ways({"run", "a.toml", "drop_last="}),
              ElementsAre("drop_last=true", "drop_last=false"));
  EXPECT_THAT(ways({"run", "a.toml", "optimizer.lr="}), IsEmpty());
}

TEST(Completion, CompletionOfNamesInListsAndHelp) {
  EXPECT_THAT(ways({"list", "mod"}), ElementsAre("models"));
  EXPECT_THAT(ways({"list", "models", "gp"}), ElementsAre("gpt"));
  EXPECT_THAT(ways({"list", "methods", "pipedream_2"}),
              ElementsAre("pipedream_2bw"));
  EXPECT_THAT(ways({"list", "models", "gpt", ""}), IsEmpty());
  EXPECT_THAT(ways({"help", "inj"}), ElementsAre("inject"));
  EXPECT_THAT(ways({"help", "config", "pipeline.micro"}),
              ElementsAre("pipeline.micro_batches"));
}

TEST(Completion, HasScriptsForThreeShells) {
  for (const char* shell : {"bash", "zsh", "fish"})
    EXPECT_THAT(std::string(completion_script(shell)),
                HasSubstr(std::string("For ") + shell));
  EXPECT_THROW(completion_script("csh"), UserError);
}

class InBash : public Program {
 protected:
  /// The function that bash calls, called as bash calls it.
  std::string typed(const std::string& line) {
    const std::string script = write(
        "typed.sh", std::string("source <(") + SLUICE_PROGRAM +
                        " completion bash)\n"
                        "complete -p sluice | grep -q _sluice || echo none\n"
                        "COMP_WORDBREAKS=$' \\t\\n\"\\'><=;|&(:'\n"
                        "COMP_LINE=$1 COMP_POINT=${#1}\n"
                        "_sluice\n"
                        "printf '%s\\n' \"${COMPREPLY[@]}\"\n");
    return shell("bash " + script + " '" + line + "'").text;
  }
  std::string program_and(const std::string& words) {
    return typed(std::string(SLUICE_PROGRAM) + " " + words);
  }
};

TEST_F(InBash, CommandsOptionsKeysAndValuesAreCompleted) {
  EXPECT_EQ(program_and("verif"), "verify\n");
  EXPECT_EQ(program_and("run --fast"), "--fast-dev-run\n");
  EXPECT_EQ(program_and("run a.toml optimizer.schedule.warmup_t"),
            "optimizer.schedule.warmup_turns=\n");
  // Bash replaces what follows the "=" alone.
  EXPECT_EQ(program_and("run a.toml engine=p"), "processes\n");
  EXPECT_EQ(program_and("sweep a.toml optimizer.name=adamw"), "adamw\n");
  EXPECT_THAT(program_and("list "),
              AllOf(HasSubstr("methods\n"), HasSubstr("corrections\n")));
  EXPECT_EQ(program_and("list heads predsi"), "predsim\n");
  EXPECT_EQ(program_and("completion z"), "zsh\n");
  EXPECT_EQ(program_and("run "), "\n");  // files, which bash knows itself
}

class InOtherShells : public Program {
 protected:
  static bool has(const std::string& name) {
    return shell("command -v " + name).status == 0;
  }
  std::string script_of(const std::string& name, const std::string& text) {
    return write("typed." + name, text) + " " + SLUICE_PROGRAM + " ";
  }
};

// The function that zsh calls, with what that has set, and the calls by which
// it gives the shell its candidates.
TEST_F(InOtherShells, ZshIsGivenCandidatesOrCompletesFiles) {
  if (!has("zsh")) GTEST_SKIP() << "no zsh";
  const std::string typed = script_of(
      "zsh",
      "compdef() {}\nsource <($1 completion zsh)\n"
      "compadd() { while [[ $1 != -- ]]; do shift; done; shift; print -l -- "
      "$@; }\n"
      "_files() { print files; }\nwords=($@)\nCURRENT=$#words\n_sluice\n");
  const auto after = [&](const std::string& words) {
    return shell("zsh -f " + typed + words).text;
  };
  EXPECT_EQ(after("verif"), "verify\n");
  EXPECT_EQ(after("run a.toml optimizer.schedule.warmup_t"),
            "optimizer.schedule.warmup_turns=\n");
  EXPECT_EQ(after("run a.toml engine=p"), "engine=processes\n");
  EXPECT_EQ(after("run a"), "files\n");
}

TEST_F(InOtherShells, FishIsGivenCandidatesOrCompletesFiles) {
  if (!has("fish")) GTEST_SKIP() << "no fish";
  write("a-config.toml", "");
  const std::string typed = script_of(
      "fish",
      "cd (dirname (status filename))\nset PATH (dirname $argv[1]) $PATH\n"
      "sluice completion fish | source\ncomplete -C \"sluice $argv[2]\"\n");
  const auto after = [&](const std::string& words) {
    return shell("HOME=" + path("") + " fish --no-config " + typed + "'" +
                 words + "'")
        .text;
  };
  EXPECT_EQ(after("verif"), "verify\n");
  EXPECT_EQ(after("run a.toml optimizer.schedule.warmup_t"),
            "optimizer.schedule.warmup_turns=\n");
  EXPECT_EQ(after("run a.toml engine=p"), "engine=processes\n");
  EXPECT_EQ(after("run a-c"), "a-config.toml\n");
}

TEST_F(InBash, WhatIsTypedIsNoCommand) {
  const std::string mark = path("mark");
  typed(std::string(SLUICE_PROGRAM) + " run a.toml $(touch " + mark + ") x");
  EXPECT_FALSE(std::filesystem::exists(mark));
}

}  // namespace sluice::completion_test
