#include "lib/metrics/record.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <variant>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"

namespace sluice::record_test {

using testing::HasSubstr;
using testing::StartsWith;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::string error_of(std::string_view line) {
  try {
    record_from_json(line);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Record, IsALineOfJsonInTheOrderInWhichItWasSet) {
  Record record;
  record.set("turn", std::int64_t{7});
  record.set("loss", 0.5);
  record.set("block", std::string("a \"b\"\n"));
  record.set("applied", true);
  EXPECT_EQ(to_json(record),
            R"({"turn":7,"loss":0.5,"block":"a \"b\"\n","applied":true})");
}

TEST(Record, SetReplacesInPlace) {
  Record record;
  record.set("a", std::int64_t{1});
  record.set("b", std::int64_t{2});
  record.set("a", 0.5);
  EXPECT_EQ(to_json(record), R"({"a":0.5,"b":2})");
}

TEST(Record, ADoubleStaysADouble) {
  Record record;
  record.set("a", 3.0);
  EXPECT_EQ(to_json(record), R"({"a":3.0})");
  EXPECT_EQ(record_from_json(to_json(record)).values, record.values);
}

TEST(Record, NotANumberAndInfinitiesAreStrings) {
  Record record;
  record.set("a", std::nan(""));
  record.set("b", kInfinity);
  record.set("c", -kInfinity);
  EXPECT_EQ(to_json(record), R"({"a":"nan","b":"inf","c":"-inf"})");
}

TEST(Record, NotANumberAndInfinitiesReadBack) {
  const Record record = record_from_json(R"({"a":"nan","b":"inf","c":"-inf"})");
  EXPECT_TRUE(std::isnan(record.number("a", 0)));
  EXPECT_EQ(record.number("b", 0), kInfinity);
  EXPECT_EQ(record.number("c", 0), -kInfinity);
}

TEST(Record, NumberIsTheValueOfIntegersAndDoubles) {
  Record record;
  record.set("a", std::int64_t{3});
  record.set("b", 0.5);
  EXPECT_EQ(record.number("a", -1), 3.0);
  EXPECT_EQ(record.number("b", -1), 0.5);
}

TEST(Record, NumberIsOtherwiseWhenThereIsNone) {
  Record record;
  record.set("name", std::string("x"));
  record.set("flag", true);
  EXPECT_EQ(record.number("name", -1), -1.0);
  EXPECT_EQ(record.number("flag", -1), -1.0);
  EXPECT_EQ(record.number("absent", -1), -1.0);
}

TEST(Record, FindsNothingUnderAnotherName) {
  EXPECT_EQ(Record{}.find("a"), nullptr);
}

TEST(Record, TextThatIsNoUtf8DoesNotStopARun) {
  Record record;
  record.set("a", std::string("x\xff"));
  EXPECT_EQ(to_json(record), "{\"a\":\"x\xef\xbf\xbd\"}");
}

TEST(Record, AnIntegerBeyond64BitsIsTheNearestDouble) {
  EXPECT_EQ(record_from_json(R"({"a":18446744073709551615})").number("a", 0),
            18446744073709551616.0);
}

TEST(Record, WhatIsNoJsonIsAnError) {
  EXPECT_THAT(error_of("{\"a\":"), StartsWith("metrics: a line is no JSON: "));
}

TEST(Record, AListIsNoRecord) {
  EXPECT_EQ(error_of("[1]"), "metrics: expected an object, found array");
}

TEST(Record, ANestedValueIsAnError) {
  EXPECT_EQ(error_of(R"({"a":{"b":1}})"),
            "metrics: 'a': expected a number, a string or a boolean, found "
            "object");
}

TEST(Record, NullIsAnError) {
  EXPECT_THAT(error_of(R"({"a":null})"), HasSubstr("found null"));
}

Record random_record(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Record record;
  for (int i = 0; i < 8; ++i) {
    const std::string name = "name " + std::to_string(random() % 100) + "\"\t";
    const std::uint64_t bits = random();
    const auto number = std::bit_cast<double>(bits);
    if (i % 4 == 0) record.set(name, std::isnan(number) ? 0.5 : number);
    if (i % 4 == 1) record.set(name, static_cast<std::int64_t>(bits));
    if (i % 4 == 2) record.set(name, bits % 2 == 0);
    if (i % 4 == 3) record.set(name, std::string(bits % 9, '\n') + "ü\\");
  }
  return record;
}

TEST(Record, AnyRecordReadsBackEqual) {
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Record record = random_record(seed);
    ASSERT_EQ(record_from_json(to_json(record)).values, record.values);
  }
}

TEST(Record, NeverBreaksItsLine) {
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    ASSERT_EQ(to_json(random_record(seed)).find('\n'), std::string::npos);
  }
}

}  // namespace sluice::record_test
