#include "experiments/program/help/method_page.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/config/presets/published.h"
#include "lib/base/error.h"
#include "lib/boundaries/boundary.h"
#include "tests/experiments/helpers/program.h"

namespace sluice::method_page_test {

using testing::HasSubstr;

TEST(MethodPage, IsThereForEveryMethod) {
  for (const PolicyRow& row : policies()) {
    ASSERT_NE(row.make.page, nullptr) << row.name;
    const MethodPage page = row.make.page();
    for (const std::string_view text : {page.source, page.kept, page.batch_norm,
                                        page.randomness, page.staleness}) {
      EXPECT_GT(text.size(), 10U) << row.name;
    }
    const std::string text = method_page(row.name);
    EXPECT_THAT(text, HasSubstr("block 1  | F0"));
    EXPECT_THAT(text, HasSubstr("x without latency")) << text;
  }
}

TEST(MethodPage, IsThereForEveryPreset) {
  for (const PresetRow& row : presets()) {
    const std::string text = method_page(row.name);
    EXPECT_THAT(text, HasSubstr(row.make->file + ".toml"));
    EXPECT_THAT(text, HasSubstr("\ncomputation  ")) << text;
    EXPECT_THAT(text, HasSubstr("\nsends        ")) << text;
    EXPECT_THAT(text, HasSubstr("\nkeeps        ")) << text;
    if (row.make->is_of_replicas()) {
      EXPECT_THAT(text, HasSubstr("block 1.2  | F")) << text;
      EXPECT_THAT(text, HasSubstr(" S")) << text;
      EXPECT_THAT(text, HasSubstr("    [replicas]\n    count = 4\n"));
      continue;
    }
    EXPECT_THAT(text, HasSubstr("block 1  | F0"));
    EXPECT_THAT(text, HasSubstr("x without latency")) << text;
    const bool says_policy = row.make->keys.find("boundary") != nullptr;
    EXPECT_THAT(text, HasSubstr(says_policy ? "    [boundary]\n    policy = "
                                            : ".toml:\n\n    "));
  }
}

TEST(MethodPage, MethodPageOfAPresetSaysWhereItsConfigIs) {
  const std::string page = method_page("auto_assist");
  EXPECT_THAT(page, HasSubstr("quickstart/auto_assist.toml"));
  EXPECT_THAT(page, HasSubstr("    [data.assist]\n    acceptance = 0.3"));
  EXPECT_THAT(
      page,
      HasSubstr("AutoAssist.AssistantOfAcceptanceOneHasTheBitsWithoutIt"));
  EXPECT_THAT(method_page("mono_forward"), HasSubstr("arXiv:2501.09238"));
  EXPECT_THAT(method_page("amp"), HasSubstr("pipelines/amp.toml"));
}

TEST(MethodPage, NamesTheTestsOfItsInvariants) {
  EXPECT_THAT(method_page("d_psgd"), HasSubstr("Gossip.KeepsTheMean"));
  EXPECT_THAT(method_page("pipedream"),
              HasSubstr("Presets.PipeDreamHasItsOrderOfActions"));
}

/// Two forwards of a backward, a round of each of the three to the two others,
/// of half a forward a message, both ways.
TEST(MethodPage, MethodPageOfReplicasDrawsTheirExchange) {
  EXPECT_THAT(method_page("synchronous_sgd"),
              HasSubstr("block 1.3  | F0 B0 -  .  S0 F1"));
  EXPECT_THAT(method_page("local_sgd"), HasSubstr("block 1.3  | F5 B5 -  F6"));
}

TEST(MethodPage, MethodPageOfAPresetHasTheSpeedUpsOfTheSimulation) {
  EXPECT_THAT(method_page("pipedream"),
              HasSubstr("4.00x without latency, 2.67x"));
  EXPECT_THAT(method_page("pipedream_2bw"), HasSubstr("4.00x without latency"));
}

TEST(MethodPage, HasTheSpeedUpsOfTheSimulation) {
  const std::string page = method_page("delayed_gradient");
  EXPECT_THAT(page, HasSubstr("4.00x without latency, 2.67x"));
  EXPECT_THAT(page, HasSubstr("2.00x with barrier"));
}

TEST(MethodPage, DrawsWhoDoesWhat) {
  EXPECT_THAT(method_page("backprop"),
              HasSubstr("block 3  | .  .  F0 B0 -  .  .  .  .  .  .  F1"));
}

TEST(MethodPage, UnknownMethodShowsTheNearest) {
  try {
    method_page("features_repaly");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("features_replay"));
  }
}

TEST(MethodPage, IsPrintedByTheProgram) {
  const Outcome page = sluice("list methods features_replay");
  EXPECT_EQ(page.status, 0);
  EXPECT_THAT(page.text, HasSubstr("arXiv:1807.04511"));
  EXPECT_THAT(page.text, HasSubstr("Its options:"));
  EXPECT_THAT(sluice("list methods").text, HasSubstr("  pipedream_2bw  "));
}

}  // namespace sluice::method_page_test
