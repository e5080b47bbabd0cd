#include "experiments/program/method_page.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/config/presets.h"
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
    EXPECT_THAT(text, HasSubstr("block 1  | F0"));
    EXPECT_THAT(text, HasSubstr("x without latency")) << text;
    EXPECT_THAT(text, HasSubstr(std::string("pipelines/") +
                                std::string(row.name) + ".toml"));
    EXPECT_THAT(text, HasSubstr("    [boundary]\n    policy = "));
  }
}

TEST(MethodPage, OfAPresetHasTheSpeedUpsOfTheSimulation) {
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

TEST(MethodPage, OfNoMethodNamesTheNearest) {
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
