#include "experiments/config/manual/catalog.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "auxiliary_heads/heads.h"
#include "experiments/config/experiment.h"
#include "experiments/config/files/toml.h"
#include "experiments/config/reading/read_experiment.h"
#include "experiments/data/data_sets.h"
#include "lib/base/error.h"
#include "lib/boundaries/boundary.h"
#include "lib/replicas/replica_policy.h"
#include "lib/updates/optimizer.h"
#include "modules/models.h"

namespace sluice::catalog_test {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const ListedRow& row_of(const std::vector<ListedTable>& tables,
                        const std::string& kind, const std::string& name) {
  return find_listed(*find_table(tables, kind), name);
}

std::vector<std::string> paths_of(const ListedRow& row) {
  std::vector<std::string> paths;
  for (const KnownKey& key : row.keys) paths.push_back(key.doc.path);
  return paths;
}

template <class Make>
void expect_all(const std::vector<ListedTable>& tables, const char* kind,
                std::span<const Row<Make>> rows) {
  const ListedTable* table = find_table(tables, kind);
  ASSERT_NE(table, nullptr) << kind;
  std::vector<std::string> names;
  for (const ListedRow& row : table->rows) names.push_back(row.name);
  EXPECT_EQ(names, names_of(rows)) << kind;
}

TEST(Catalog, HasEveryRowOfTheTables) {
  const std::vector<ListedTable> tables = listed_tables();
  expect_all(tables, "methods", policies());
  expect_all(tables, "heads", heads());
  expect_all(tables, "models", models());
  expect_all(tables, "datasets", data_sets());
  expect_all(tables, "optimizers", optimizers());
  expect_all(tables, "replicas", replica_policies());
  EXPECT_EQ(find_table(tables, "heds"), nullptr);
}

TEST(Catalog, ARowHasTheOptionsThatItReads) {
  const std::vector<ListedTable> tables = listed_tables();
  EXPECT_THAT(paths_of(row_of(tables, "optimizers", "sgd")),
              ElementsAre("optimizer.momentum", "optimizer.nesterov",
                          "optimizer.look_ahead"));
  EXPECT_THAT(paths_of(row_of(tables, "models", "gpt")),
              Contains("model.heads"));
  EXPECT_THAT(paths_of(row_of(tables, "heads", "predsim")),
              Contains("boundary.head.beta"));
  EXPECT_THAT(paths_of(row_of(tables, "heads", "linear")),
              ElementsAre("boundary.head.pool"));
  EXPECT_THAT(paths_of(row_of(tables, "codecs", "int8")), IsEmpty());
  EXPECT_THAT(paths_of(row_of(tables, "datasets", "text")),
              Contains("data.context"));
  EXPECT_THAT(paths_of(row_of(tables, "schedules", "step")),
              ElementsAre("optimizer.schedule.milestones",
                          "optimizer.schedule.factor"));
  EXPECT_THAT(paths_of(row_of(tables, "predictors", "input_model")),
              Contains("boundary.unlock.hidden"));
}

TEST(Catalog, AnOptionOfAChoiceSaysWhichChoice) {
  const std::vector<ListedTable> tables = listed_tables();
  const auto with = [&](const std::string& kind, const std::string& name,
                        const std::string& path) {
    std::vector<std::string> all;
    for (const KnownKey& key : row_of(tables, kind, name).keys)
      if (key.doc.path == path)
        all.insert(all.end(), key.with.begin(), key.with.end());
    return all;
  };
  EXPECT_THAT(with("models", "layers", "model.layer[].p"),
              ElementsAre("model.layer[].type = \"dropout\""));
  EXPECT_THAT(with("models", "layers", "model.layer[].outputs"),
              ElementsAre("model.layer[].type = \"linear\""));
  EXPECT_THAT(with("models", "layers", "model.layer[].type"),
              ElementsAre("model.name = \"layers\""));
  EXPECT_THAT(with("methods", "delayed_gradient", "boundary.decay"),
              ElementsAre("boundary.weights = \"extrapolate\""));
}

TEST(Catalog, UnknownNameShowsTheNearest) {
  const std::vector<ListedTable> tables = listed_tables();
  try {
    row_of(tables, "heads", "predsin");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'predsim'"));
  }
}

/// "boundary.head.name" of [boundary.2.head] and of one for all.
void collect(const ConfigNode& node, const std::string& path,
             std::set<std::string>& keys) {
  if (const auto* table = std::get_if<ConfigNode::Table>(&node.value)) {
    for (const auto& [name, below] : *table)
      collect(below, path.empty() ? name : path + "." + name, keys);
  } else if (const auto* array = std::get_if<ConfigNode::Array>(&node.value);
             array != nullptr && !array->empty() &&
             std::holds_alternative<ConfigNode::Table>(array->front().value)) {
    for (const ConfigNode& element : *array)
      collect(element, path + "[]", keys);
  } else {
    keys.insert(key_of_all(path));
  }
}

/// What the configs that ship say is an oracle that shares nothing with the
/// descriptions.
TEST(Catalog, KnowsEveryKeyOfEveryConfigThatShips) {
  std::set<std::string> known;
  for (const KnownKey& key : known_keys()) known.insert(key.doc.path);
  int configs = 0;
  for (const auto& entry : fs::recursive_directory_iterator(
           fs::path(SLUICE_TEST_FOLDER) / "../experiments/configs")) {
    const std::string file = entry.path().string();
    if (entry.path().extension() != ".toml") continue;
    if (file.find("/cards/") != std::string::npos) continue;
    ++configs;
    std::set<std::string> keys;
    collect(read_toml_file(file), "", keys);
    for (std::string key : keys) {
      // What a phase sets anew is described where it is set first.
      constexpr std::string_view kOfPhase = "timetable[].";
      if (key.starts_with(kOfPhase) && !known.contains(key))
        key.erase(0, kOfPhase.size());
      if (key == "extends" || key.starts_with("sweep") ||
          key.starts_with("about"))
        continue;
      EXPECT_TRUE(known.contains(key)) << file << ": " << key;
    }
  }
  EXPECT_GT(configs, 20);
}

TEST(Catalog, EveryKeyHasATypeAndAMeaning) {
  for (const KnownKey& key : known_keys()) {
    EXPECT_FALSE(key.doc.type.empty()) << key.doc.path;
    EXPECT_FALSE(key.doc.text.empty()) << key.doc.path;
  }
}

TEST(Catalog, ARunsDefaultsAreKnownWithTheirChoices) {
  const std::vector<KnownKey> known = known_keys();
  const auto find = [&](const std::string& path) {
    return *std::find_if(known.begin(), known.end(), [&](const KnownKey& key) {
      return key.doc.path == path;
    });
  };
  EXPECT_THAT(find("engine").doc.choices,
              ElementsAre("virtual", "threads", "processes"));
  EXPECT_THAT(find("engine").with, IsEmpty());
  EXPECT_THAT(find("model.name").doc.choices, Contains("gpt"));
  EXPECT_THAT(find("optimizer.nesterov").with,
              Not(Contains("optimizer.name = \"adam\"")));
  EXPECT_THAT(find("optimizer.nesterov").with, Not(IsEmpty()));
  EXPECT_THAT(find("model.hidden").with, Contains("model.name = \"mlp\""));
}

TEST(Catalog, AKeyOfOneBlockIsThatOfAll) {
  EXPECT_EQ(key_of_all("boundary.2.head.name"), "boundary.head.name");
  EXPECT_EQ(key_of_all("optimizer.last.lr"), "optimizer.lr");
  EXPECT_EQ(key_of_all("optimizer.schedule.name"), "optimizer.schedule.name");
  EXPECT_EQ(key_of_all("model.2.x"), "model.2.x");
}

std::string suggestion(const std::string& config) {
  try {
    read_experiment(parse_toml(config, "a.toml"), "");
  } catch (const UnknownKey& error) {
    return with_suggestion(error);
  }
  return "no unknown key";
}

TEST(Suggestions, LeadToOtherTables) {
  EXPECT_THAT(
      suggestion("lr = 0.1\n"),
      HasSubstr("a.toml:1: unknown key 'lr' (did you mean "
                "'optimizer.lr'?); this table has: plugins, name, engine"));
  EXPECT_THAT(suggestion("[model]\nbatch_size = 3\n"),
              HasSubstr("did you mean 'batch_size'?"));
  EXPECT_THAT(suggestion("data = {micro_batches = 2}\n"),
              HasSubstr("did you mean 'pipeline.micro_batches'?"));
}

TEST(Suggestions, LeadToOtherChoicesOfTheTable) {
  EXPECT_THAT(suggestion("optimizer = {name = 'adam', momentum = 0.9}\n"),
              AllOf(HasSubstr("unknown key 'optimizer.momentum' (it is there "
                              "with optimizer.name = "),
                    HasSubstr("optimizer.name = \"sgd\"")));
  EXPECT_THAT(
      suggestion("boundary = {1 = {policy = 'backprop', target_delay = 0}}\n"),
      HasSubstr("it is there with boundary.policy = \"synthetic_gradient\""));
}

TEST(Suggestions, PreferASlipOfTheFingerWhereNoTableHasTheName) {
  EXPECT_THAT(suggestion("optimizer = {lrr = 1}\n"),
              HasSubstr("'optimizer.lrr' (did you mean 'lr'?)"));
  EXPECT_THAT(suggestion("zzzzzz = 1\n"), Not(HasSubstr("did you mean")));
}

}  // namespace sluice::catalog_test
