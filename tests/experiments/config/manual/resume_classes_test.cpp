// What another value of a key means for a run that is resumed.
#include "experiments/config/manual/resume_classes.h"

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/config/files/toml.h"
#include "experiments/config/manual/catalog.h"
#include "experiments/config/manual/resume_changes.h"
#include "experiments/config/numbers.h"
#include "experiments/config/reading/read_experiment.h"
#include "lib/base/error.h"

namespace sluice::resume_classes_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

ResumeEffect class_of(const std::string& path, bool is_text = false) {
  const ResumeClass* row = find_resume_class(path, is_text);
  return row == nullptr ? ResumeEffect::anew : row->on_resume;
}

TEST(ResumeClasses, EveryKeyOfEveryTableHasARow) {
  for (const KnownKey& key : known_keys())
    EXPECT_NE(find_resume_class(key.doc.path, false), nullptr) << key.doc.path;
}

TEST(ResumeClasses, AKeyWithoutNumbersIsNeverRefused) {
  const Experiment plain = read_experiment({.value = ConfigNode::Table{}}, "");
  const ConfigNode numbers = numbers_of(plain.resolved);
  for (const auto& [key, node] :
       std::get<ConfigNode::Table>(plain.resolved.value))
    // Some tables have numbers only where they have an effect.
    if (numbers.find(key) == nullptr && key != "limit" && key != "fine_tune") {
      EXPECT_NE(class_of(key), ResumeEffect::refused) << key;
    }
}

TEST(ResumeClasses, WhatDecidesWhichSamplesAreTrainedOnIsRefused) {
  for (const char* key :
       {"seed", "batch_size", "drop_last", "limit.train", "data.name",
        "data.validation", "data.validation_seed", "data.label_noise",
        "data.context", "data.size", "data.train", "data.seed"})
    EXPECT_EQ(class_of(key), ResumeEffect::refused) << key;
}

TEST(ResumeClasses, AFileOfTheDataMayLieElsewhere) {
  for (const char* key : {"data.root", "data.train", "data.file", "data.folder",
                          "data.tokenizer_model"})
    EXPECT_EQ(class_of(key, /*is_text=*/true), ResumeEffect::free) << key;
}

TEST(ResumeClasses, ABlocksOwnKeyHasTheClassOfItsTable) {
  EXPECT_EQ(class_of("optimizer.3.schedule.milestones"), ResumeEffect::anew);
  EXPECT_EQ(class_of("boundary.last.policy"), ResumeEffect::anew);
}

Experiment with(const std::string& lines, int blocks = 2) {
  return read_experiment(
      parse_toml(fmt::format("blocks = {}\ndata = {{train = 240, test = 40}}\n"
                             "{}",
                             blocks, lines),
                 "test.toml"),
      "");
}

std::vector<std::string> changes(const Experiment& before,
                                 const Experiment& now) {
  std::vector<std::string> texts;
  for (const KeyChange& change : changed_keys(before.resolved, now))
    texts.push_back(values_text(change));
  return texts;
}

TEST(ResumeChanges, EqualConfigsHaveNone) {
  const std::string lines = "optimizer = {name = 'adam', lr = 1e-3}\n";
  EXPECT_THAT(changes(with(lines), with(lines)), IsEmpty());
}

TEST(ResumeChanges, AreALineForEachKey) {
  EXPECT_THAT(
      changes(with(""), with("log_every = 5\nbatch_size = 16\n")),
      ElementsAre("batch_size = 16, before 64", "log_every = 5, before 1"));
}

TEST(ResumeChanges, ChangesOfAllBlocksAreOneLineAndThatOfOneBlockItsOwn) {
  const Experiment before = with("optimizer = {lr = 0.1}\n");
  EXPECT_THAT(changes(before, with("optimizer = {lr = 0.5}\n")),
              ElementsAre("optimizer.lr = 0.5, before 0.1"));
  EXPECT_THAT(changes(before, with("optimizer = {lr = 0.1, 2 = {lr = 0.5}}\n")),
              ElementsAre("optimizer.2.lr = 0.5, before 0.1"));
}

TEST(ResumeChanges, ChangesOfTheCutNameTheCutAlone) {
  const std::string model = "model = {hidden = [8, 8]}\n";
  const auto found = changes(with(model), with(model, 3));
  EXPECT_THAT(found, ElementsAre(HasSubstr("blocks = ")));
}

TEST(ResumeChanges, KeyThatTheRunDidntKnowIsNoChange) {
  Experiment before = with("");
  std::erase_if(std::get<ConfigNode::Table>(before.resolved.value),
                [](const auto& item) { return item.first == "priority"; });
  EXPECT_THAT(changes(before, with("")), IsEmpty());
}

TEST(ResumeChanges, ThatAreRefusedNameTheKeyAndTheRemedy) {
  const Experiment now = with("batch_size = 16\n");
  const auto found = changed_keys(with("").resolved, now);
  EXPECT_THAT([&] { refuse_changes(found, "R/checkpoints/turn-000012"); },
              ThrowsMessage<UserError>(AllOf(
                  HasSubstr("batch_size: is 16"), HasSubstr("with 64"),
                  HasSubstr("initial_weights = 'R/checkpoints/turn-000012'"))));
}

TEST(ResumeChanges, TellTheTurnFromWhichNumbersAreOthers) {
  const auto found =
      changed_keys(with("").resolved, with("optimizer = {lr = 0.5}\n"));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_THAT(text_of(found.front(), 12), HasSubstr("from turn 12 on"));
}

}  // namespace sluice::resume_classes_test
