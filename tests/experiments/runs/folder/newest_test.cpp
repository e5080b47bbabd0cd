// A checkpoint that is removed while it is read.
#include "experiments/runs/folder/newest.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::newest_test {

using testing::ElementsAre;
using testing::ThrowsMessage;

/// What is found in turn, and which of it can be read.
struct PlaceList {
  std::vector<std::string> places;
  std::string readable;
  std::size_t looks = 0;
  std::vector<std::string> tried = {};

  int use() {
    return use_newest(
        [this] { return places[std::min(looks++, places.size() - 1)]; },
        [](const std::string& place) { return place; },
        [this](const std::string& place) {
          tried.push_back(place);
          if (place != readable) throw UserError("{}: is gone", place);
          return 7;
        });
  }
};

TEST(UseNewest, TakesTheOneThatHasComeMeanwhile) {
  PlaceList found{.places = {"turn-4", "turn-8", "turn-12"},
                  .readable = "turn-12"};
  EXPECT_EQ(found.use(), 7);
  EXPECT_THAT(found.tried, ElementsAre("turn-4", "turn-8", "turn-12"));
}

TEST(UseNewest, PassesOnWhyTheOnlyOneCantBeRead) {
  PlaceList found{.places = {"turn-4"}, .readable = "none"};
  EXPECT_THAT([&] { found.use(); },
              ThrowsMessage<UserError>("turn-4: is gone"));
  EXPECT_EQ(found.tried.size(), 1U);
}

TEST(UseNewest, ReadsWhatIsThereOnce) {
  PlaceList found{.places = {"turn-4", "turn-8"}, .readable = "turn-4"};
  EXPECT_EQ(found.use(), 7);
  EXPECT_EQ(found.looks, 1U);
}

}  // namespace sluice::newest_test
