#include "lib/base/whole_number.h"

#include <cstdint>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace sluice {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(WholeNumber, WholeNumberOfEachTypeReachesItsEnds) {
  for (const std::int64_t end : {std::numeric_limits<std::int64_t>::min(),
                                 std::numeric_limits<std::int64_t>::max()})
    EXPECT_EQ(whole_number<std::int64_t>(Json(end)), end);
  const auto most = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(whole_number<std::uint64_t>(Json(most)), most);
  EXPECT_THAT(whole_numbers<int>(Json::parse("[3, -4]")), ElementsAre(3, -4));
}

TEST(WholeNumber, ThatIsNoneOrDoesNotFitIsRefusedAsFound) {
  for (const char* text :
       {"4.5", "4e20", "-1", "4294967296", "18446744073709551616"}) {
    EXPECT_THROW(whole_number<std::uint32_t>(Json::parse(text)),
                 Json::type_error)
        << text;
  }
  EXPECT_THROW(whole_number<std::int64_t>(
                   Json(std::numeric_limits<std::uint64_t>::max())),
               Json::type_error);
  EXPECT_THAT([] { whole_number<int>(Json("3")); },
              ThrowsMessage<Json::type_error>(HasSubstr("found string")));
  EXPECT_THROW(whole_numbers<int>(Json(3)), Json::type_error);
}

}  // namespace
}  // namespace sluice
