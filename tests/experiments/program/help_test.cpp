// Every option of every table has a page, and every published name leads to the
// keys that are it.
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/config/manual/catalog.h"
#include "experiments/config/presets/published.h"
#include "experiments/program/commands.h"
#include "experiments/program/help_topics.h"
#include "lib/base/error.h"
#include "tests/experiments/helpers/program.h"

namespace sluice::help_test {

using testing::AllOf;
using testing::HasSubstr;

std::string listed(const std::string& kind, const std::string& name) {
  testing::internal::CaptureStdout();
  list_command({kind, name});
  return testing::internal::GetCapturedStdout();
}

/// The words of `text` with a space between: pages are broken into lines.
std::string unbroken(const std::string& text) {
  std::string result;
  std::istringstream words(text);
  for (std::string word; words >> word;)
    result += (result.empty() ? "" : " ") + word;
  return result;
}

TEST(List, HasEveryOptionOfEveryRowOfEveryTable) {
  int options = 0;
  for (const ListedTable& table : listed_tables()) {
    const std::string names = listed(table.kind, "");
    for (const ListedRow& row : table.rows) {
      EXPECT_THAT(names, HasSubstr("  " + row.name));
      const std::string page = unbroken(listed(table.kind, row.name));
      EXPECT_THAT(page, HasSubstr(row.name + ": " + unbroken(row.summary)));
      for (const KnownKey& key : row.keys) {
        ++options;
        if (key.doc.type == "table" || key.doc.type == "list of tables")
          continue;
        EXPECT_THAT(page, HasSubstr(std::string(key_name(key.doc.path))));
        EXPECT_THAT(page, HasSubstr(unbroken(key.doc.text)))
            << table.kind << " " << row.name << " " << key.doc.path;
      }
    }
  }
  EXPECT_GT(options, 150);
}

TEST(Help, HasEveryKeyWithTypeMeaningAndDefault) {
  std::string before;
  const std::vector<KnownKey> known = known_keys();
  for (const KnownKey& key : known) {
    const KeyDoc& doc = key.doc;
    if (doc.type == "table" || doc.type == "list of tables") continue;
    if (doc.path == before) continue;  // another row's of the same name
    before = doc.path;
    const std::string page = unbroken(text_about_key(doc.path, known));
    EXPECT_THAT(page, AllOf(HasSubstr(doc.path), HasSubstr(doc.type),
                            HasSubstr(unbroken(doc.text))));
    if (doc.default_value.empty()) continue;
    EXPECT_THAT(page, HasSubstr("default " + unbroken(doc.default_value)))
        << doc.path;
  }
}

TEST(Help, HelpOfAKeyOfOneBlockOrItsLastPartIsTheSame) {
  const std::string page = text_about_key("optimizer.lr");
  EXPECT_THAT(page, HasSubstr("learning rate"));
  EXPECT_EQ(text_about_key("optimizer.2.lr"), page);
  EXPECT_THAT(text_about_key("lr"), HasSubstr(page));
  EXPECT_THAT(text_about_key("optimizer.schedule"),
              HasSubstr("optimizer.schedule.cooldown"));
  EXPECT_THAT(unbroken(text_about_key("optimizer.schedule.cooldown")),
              HasSubstr("[with optimizer.schedule.name = "
                        "\"warmup_stable_decay\"]"));
  EXPECT_THAT(text_about_key("model.name"), HasSubstr("one of: mlp, "));
}

TEST(Help, UnknownKeyShowsTheNearest) {
  try {
    text_about_key("optimizer.lrr");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'optimizer.lr'"));
  }
}

TEST(Help, HelpOfEveryPublishedSystemHasItsKeysOrWhereTheyAre) {
  int built = 0;
  for (const PublishedSystem& system : published_systems().systems) {
    SCOPED_TRACE(system.name);
    const std::string page = text_about(system.name, {});
    EXPECT_THAT(page, AllOf(HasSubstr(system.name), HasSubstr(system.paper)));
    std::istringstream keys(system.keys);
    for (std::string line; std::getline(keys, line);)
      EXPECT_THAT(page, HasSubstr(line));
    if (system.is_built()) {
      ++built;
      EXPECT_TRUE(!system.keys.empty() || !system.rows.empty());
    } else {
      EXPECT_TRUE(page.find("Not there yet.") != std::string::npos ||
                  page.find("Left out.") != std::string::npos);
    }
    for (const std::string& row : system.rows)
      EXPECT_THAT(page, HasSubstr("sluice list " + row));
  }
  EXPECT_GT(built, 50);
}

TEST(Help, LeadsFromPublishedNamesToKeys) {
  const std::pair<const char*, const char*> names[] = {
      {"interlocking", "rule = \"furthest\""},
      {"overlapping", "reach = 1}"},
      {"DGL", "head = {name = \"mlp_sr\"}"},
      {"InfoPro", "head = {name = \"infopro\"}"},
      {"ADL", "accumulate = {batches = 4}"},
      {"dsp", "weights = \"current\""},
      {"PipeDream", "sluice list methods pipedream"},
      {"Mono-Forward", "head = {name = \"mono_forward\"}"},
      {"monoforward", "head = {name = \"mono_forward\"}"},
      {"ResNet", "sluice list models resnet18"},
      {"ZeRO", "shard = true"},
      {"DiLoCo", "outer_lr = 0.7"}};
  for (const auto& [name, key] : names) {
    EXPECT_THAT(text_about(name, {}), HasSubstr(key)) << name;
    EXPECT_THAT(listed(name, ""), HasSubstr(key)) << name;
  }
  EXPECT_THAT(text_about("lr", {}),
              HasSubstr("sluice help config optimizer.lr"));
}

TEST(Help, MatchesWholeWordsFirst) {
  EXPECT_EQ(name_match("PipeDream-2BW", "pipedream"), NameMatch::whole);
  EXPECT_EQ(name_match("PipeDream-2BW", "PipeDream 2bw"), NameMatch::whole);
  EXPECT_EQ(name_match("resnet18", "ResNet"), NameMatch::begins);
  EXPECT_EQ(name_match("resnet18", "re"), NameMatch::none);
  EXPECT_EQ(name_match("resnet18", "net18"), NameMatch::none);
  EXPECT_EQ(name_match("resnet18", ""), NameMatch::none);
  const std::string page = text_about("adam", {});
  EXPECT_LT(page.find("optimizers adam:"), page.find("optimizers adamw:"));
}

TEST_F(Program, HelpListsTopicsAndCommands) {
  const Outcome help = sluice("help");
  EXPECT_EQ(help.status, 0);
  for (const char* text : {"config", "inject", "sweep", "what-if", "verify"})
    EXPECT_THAT(help.text, HasSubstr(text));
  EXPECT_THAT(sluice("help run").text, HasSubstr("--fast-dev-run"));
  EXPECT_THAT(sluice("help data order").text, HasSubstr("--with"));
  EXPECT_THAT(sluice("help config lr").text, HasSubstr("optimizer.lr"));
  EXPECT_THAT(sluice("help config about").text,
              HasSubstr("section of docs/coverage.md"));
  EXPECT_THAT(sluice("help InfoPro").text, HasSubstr("infopro"));
}

TEST_F(Program, HelpShowsTheKeysOfEveryPolicy) {
  const std::string help = sluice("help config").text;
  for (const char* key : {"synthetic_gradient", "[boundary.synthesizer]",
                          "[boundary.synthesizer.optimizer]", "target_delay",
                          "[boundary.head]", "[[boundary.sources]]"})
    EXPECT_THAT(help, HasSubstr(key));
}

TEST_F(Program, ListHasTablesRowsAndPages) {
  const Outcome tables = sluice("list");
  EXPECT_EQ(tables.status, 0);
  EXPECT_THAT(tables.text, HasSubstr("  schedules"));
  EXPECT_THAT(sluice("list models gpt").text,
              AllOf(HasSubstr("model.name = \"gpt\""), HasSubstr("default")));
}

}  // namespace sluice::help_test
