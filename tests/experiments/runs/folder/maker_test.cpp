// Makers of a run, and what is mixed among them.
#include "experiments/runs/folder/maker.h"

#include <array>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/experiments/helpers/training.h"

namespace sluice::maker_test {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;
using testing::IsEmpty;

Maker made_by(const Json& part) {
  return Maker(part);
}

TEST(Makers, ThatAreAlikeMixNothing) {
  const std::vector<Maker> makers(3, made_by({{"libtorch", "2.13.0"}}));
  EXPECT_EQ(mixed(makers), "");
}

TEST(Makers, ThatDifferAreNamedByWhatTheyDifferIn) {
  const std::array makers = {Maker({{"libtorch", "2.13.0"},
                                    {"instruction_set", "AVX2"},
                                    {"threads", 1},
                                    {"engine", "threads"}}),
                             made_by({{"libtorch", "2.11.0"},
                                      {"instruction_set", "AVX512"},
                                      {"threads", 2},
                                      {"engine", "virtual"}})};
  constexpr std::array<std::string_view, 1> kNoEngine = {"engine"};
  EXPECT_EQ(mixed(makers, kNoEngine),
            "libtorch 2.11.0 and 2.13.0; instruction_set AVX2 and AVX512; 1 "
            "and 2 threads");
}

TEST(Makers, MakersOfOlderRunsAreComparedByWhatTheySay) {
  const std::array makers = {
      made_by({{"libtorch", "2.13.0"}, {"processor", "A"}}),
      made_by({{"libtorch", "2.13.0"}, {"devices", {"B"}}})};
  EXPECT_EQ(mixed(makers), "");
}

TEST(Makers, MakersOfARunAreThoseOfItsStretches) {
  const Json run = {{"libtorch", "2.11.0"},
                    {"continued", {{{"libtorch", "2.13.0"}, {"turn", 5}}}}};
  const auto makers = makers_in(run);
  ASSERT_EQ(makers.size(), 2U);
  EXPECT_EQ(makers[1].find("libtorch"), "2.13.0");
  EXPECT_THAT(mixed(makers), HasSubstr("2.11.0 and 2.13.0"));
}

TEST(Makers, MakersOfARunOfRanksAreThoseOfAllRanks) {
  const Json run = {{"libtorch", "2.13.0"},
                    {"instruction_set", "AVX2"},
                    {"builds",
                     {{"rank 0",
                       {{"libtorch", "2.13.0, configured as 1"},
                        {"instruction_set", "AVX2"}}},
                      {"rank 1",
                       {{"libtorch", "2.13.0, configured as 1"},
                        {"instruction_set", "AVX512"}}}}}};
  EXPECT_EQ(mixed(makers_in(run)), "instruction_set AVX2 and AVX512");
}

TEST(Makers, ThatAreDamagedAreLeftOut) {
  EXPECT_EQ(mixed(makers_in(Json::array({1, 2}))), "");
  EXPECT_EQ(made_by({{"libtorch", nullptr}}).find("libtorch"), "");
  EXPECT_THAT(makers_of_run("/nowhere"), IsEmpty());
}

TEST(Makers, MakersOfThisProcessSayWhatEqualBitsDependOn) {
  const Maker here = maker_here(small_experiment("threads = 1\n"));
  for (const std::string_view key :
       {"build", "libtorch", "processor", "instruction_set", "threads",
        "engine", "device"})
    EXPECT_NE(here.find(key), "") << key;
  EXPECT_THAT(text_of(here), HasSubstr("LibTorch "));
}

}  // namespace sluice::maker_test
