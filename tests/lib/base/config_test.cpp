#include "lib/base/config.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"

namespace sluice::config_test {

using testing::ElementsAre;
using testing::HasSubstr;

/// A value as line `line` of x.toml would give it.
ConfigNode at(int line, ConfigNode::Value value) {
  return {std::move(value), {"x.toml", line}};
}

ConfigNode text(const std::string& value) {
  return at(12, value);
}

/// The table {name = node}.
ConfigNode table(const std::string& name, ConfigNode node) {
  ConfigNode result = at(1, ConfigNode::Table{});
  result.set(name, std::move(node));
  return result;
}

std::string error_of(const std::function<void()>& read) {
  try {
    read();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

/// The error of reading "optimizer.NAME" as a T with `doc`.
template <class T>
std::string error_of_key(const ConfigNode& table, const std::string& name,
                         const Doc& doc) {
  return error_of([&] {
    T value = {};
    Fields(&table, "optimizer").key(name, value, doc);
  });
}

struct GroupOptions {
  std::string match = "*";
  double lr_scale = 1;

  void describe(Fields& fields) {
    fields.key("match", match, {.text = "pattern of parameter names"});
    fields.key("lr_scale", lr_scale, {.text = "times lr", .min = 0});
  }
};

struct Options {
  bool barrier = false;
  std::int64_t epochs = 2;
  std::vector<std::int64_t> hidden = {64, 64};
  ConfigNode blocks = {std::int64_t{1}, {}};
  std::string optimizer = "sgd";
  double lr = 0.1;
  std::vector<GroupOptions> groups = {};

  void describe(Fields& fields) {
    fields.key("barrier", barrier, {.text = "wait for all"});
    fields.key("epochs", epochs,
               {.text = "passes", .unit = "epochs", .min = 1, .max = 9});
    fields.key("hidden", hidden, {.text = "widths", .min = 1});
    fields.key("blocks", blocks, "integer | list of ranges", {.text = "cut"});
    fields.section("optimizer", "how weights move", [&](Fields& below) {
      below.key("name", optimizer,
                {.text = "rule", .allowed = {"sgd", "adam"}});
      below.key("lr", lr, {.text = "step size", .min = 0});
      below.list("groups", "exceptions", [&](Fields& row, std::int64_t index) {
        GroupOptions group;
        group.describe(row);
        if (index >= 0) groups.push_back(group);
      });
    });
  }
};

ConfigNode resolved(const ConfigNode* root, Options& options) {
  Fields fields(root, "");
  options.describe(fields);
  fields.finish();
  return fields.resolved();
}

ConfigNode example() {
  ConfigNode root = table("hidden", at(2, std::int64_t{128}));
  root.set_path("optimizer.lr", at(3, std::int64_t{1}));
  root.set_path(
      "optimizer.groups",
      at(4, ConfigNode::Array{table("match", text("*.bias")),
                              table("lr_scale", at(6, std::int64_t{2}))}));
  return root;
}

TEST(Config, AMissingTableGivesTheDefaults) {
  Options options;
  resolved(nullptr, options);
  EXPECT_EQ(options.lr, 0.1);
  EXPECT_THAT(options.hidden, ElementsAre(64, 64));
}

TEST(Config, AWrittenKeyReplacesTheDefault) {
  const ConfigNode root = table("epochs", at(1, std::int64_t{5}));
  Options options;
  resolved(&root, options);
  EXPECT_EQ(options.epochs, 5);
}

TEST(Config, ANumberAcceptsAnInteger) {
  const ConfigNode root = example();
  Options options;
  resolved(&root, options);
  EXPECT_EQ(options.lr, 1.0);
}

TEST(Config, AListAcceptsASingleValue) {
  const ConfigNode root = example();
  Options options;
  resolved(&root, options);
  EXPECT_THAT(options.hidden, ElementsAre(128));
}

TEST(Config, AListOfTablesIsReadInOrder) {
  const ConfigNode root = example();
  Options options;
  resolved(&root, options);
  ASSERT_EQ(options.groups.size(), 2u);
  EXPECT_EQ(options.groups[0].match, "*.bias");
  EXPECT_EQ(options.groups[1].lr_scale, 2.0);
}

TEST(Config, AnAbsentListIsDescribedOnceForTheManual) {
  std::vector<std::int64_t> calls;
  Fields fields(nullptr, "");
  fields.list("groups", "",
              [&](Fields&, std::int64_t i) { calls.push_back(i); });
  EXPECT_THAT(calls, ElementsAre(-1));
}

TEST(Config, TheResolvedTableHasEveryKeyInTheOrderAsked) {
  Options options;
  EXPECT_EQ(resolved(nullptr, options).literal(),
            "{barrier = false, epochs = 2, hidden = [64, 64], blocks = 1, "
            "optimizer = {name = \"sgd\", lr = 0.1, groups = []}}");
}

TEST(Config, TheResolvedTableHasTheValuesThatWereWritten) {
  const ConfigNode root = example();
  Options options;
  EXPECT_EQ(resolved(&root, options).literal(),
            "{barrier = false, epochs = 2, hidden = [128], blocks = 1, "
            "optimizer = {name = \"sgd\", lr = 1.0, groups = "
            "[{match = \"*.bias\", lr_scale = 1.0}, "
            "{match = \"*\", lr_scale = 2.0}]}}");
}

TEST(Config, TheResolvedTableReadAgainIsTheSame) {
  const ConfigNode root = example();
  Options first;
  const ConfigNode once = resolved(&root, first);
  Options second;
  EXPECT_EQ(resolved(&once, second).literal(), once.literal());
}

TEST(Config, AnEmptyNodeIsLeftOutOfTheResolvedTable) {
  ConfigNode blocks;
  Fields fields(nullptr, "");
  fields.key("blocks", blocks, "integer", {.text = "cut"});
  EXPECT_EQ(fields.resolved().literal(), "{}");
}

TEST(ConfigErrors, AStringIsNoNumber) {
  EXPECT_EQ(error_of_key<double>(table("lr", text("fast")), "lr", {}),
            "x.toml:12: optimizer.lr: expected a number, found string 'fast'");
}

TEST(ConfigErrors, ANumberIsNoInteger) {
  EXPECT_EQ(error_of_key<std::int64_t>(table("n", at(3, 2.0)), "n", {}),
            "x.toml:3: optimizer.n: expected an integer, found number 2.0");
}

TEST(ConfigErrors, AnIntegerIsNoBoolean) {
  EXPECT_EQ(error_of_key<bool>(table("n", at(3, std::int64_t{1})), "n", {}),
            "x.toml:3: optimizer.n: expected true or false, found integer 1");
}

TEST(ConfigErrors, ATableIsNoString) {
  const ConfigNode root = table("name", at(3, ConfigNode::Table{}));
  EXPECT_EQ(error_of_key<std::string>(root, "name", {}),
            "x.toml:3: optimizer.name: expected a string, found table");
}

TEST(ConfigErrors, AListSaysThatASingleValueWouldDo) {
  EXPECT_EQ(
      error_of_key<std::vector<std::int64_t>>(table("n", text("a")), "n", {}),
      "x.toml:12: optimizer.n: expected an integer or a list of integers, "
      "found string 'a'");
}

TEST(ConfigErrors, AWrongElementIsNamedByItsIndex) {
  const ConfigNode root =
      table("n", at(3, ConfigNode::Array{at(4, std::int64_t{1}), text("a")}));
  EXPECT_EQ(error_of_key<std::vector<std::int64_t>>(root, "n", {}),
            "x.toml:12: optimizer.n[1]: expected an integer, found string 'a'");
}

TEST(ConfigErrors, ARangeErrorSaysWhatIsAllowedAndTheUnit) {
  EXPECT_EQ(error_of_key<double>(table("wait", at(3, -1.5)), "wait",
                                 {.unit = "ms", .min = 0}),
            "x.toml:3: optimizer.wait: -1.5 is out of range; "
            "allowed: at least 0 ms");
}

TEST(ConfigErrors, BothLimitsAreNamed) {
  EXPECT_EQ(error_of_key<std::int64_t>(table("n", at(3, std::int64_t{7})), "n",
                                       {.min = 1, .max = 4}),
            "x.toml:3: optimizer.n: 7 is out of range; allowed: 1 to 4");
}

TEST(ConfigErrors, LimitsHoldForEveryElement) {
  const ConfigNode root =
      table("n", at(3, ConfigNode::Array{at(3, 0.5), at(3, 1.5)}));
  EXPECT_EQ(error_of_key<std::vector<double>>(root, "n", {.max = 1}),
            "x.toml:3: optimizer.n[1]: 1.5 is out of range; "
            "allowed: at most 1");
}

TEST(ConfigErrors, TheLimitsThemselvesAreAllowed) {
  const Doc doc = {.min = 0, .max = 1};
  EXPECT_EQ(error_of_key<double>(table("n", at(3, 0.0)), "n", doc), "no error");
  EXPECT_EQ(error_of_key<double>(table("n", at(3, 1.0)), "n", doc), "no error");
}

TEST(ConfigErrors, NotANumberIsRefused) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(error_of_key<double>(table("lr", at(3, nan)), "lr", {}),
            "x.toml:3: optimizer.lr: expected a finite number, found nan");
}

TEST(ConfigErrors, InfinityIsRefused) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(error_of_key<double>(table("lr", at(3, -infinity)), "lr", {}),
            "x.toml:3: optimizer.lr: expected a finite number, found -inf");
}

TEST(ConfigErrors, AStringOutsideTheAllowedOnesListsThemAndTheNearest) {
  EXPECT_EQ(error_of_key<std::string>(table("name", text("adma")), "name",
                                      {.allowed = {"sgd", "adam", "adamw"}}),
            "x.toml:12: optimizer.name: unknown value 'adma' (did you mean "
            "'adam'?); allowed: sgd, adam, adamw");
}

TEST(ConfigErrors, AnUnknownKeyIsNamedWithItsLineAndTheNearest) {
  ConfigNode root;
  root.set_path("optimizer.lrr", at(7, 0.5));
  EXPECT_EQ(error_of([&] {
              Options options;
              resolved(&root, options);
            }),
            "x.toml:7: unknown key 'optimizer.lrr' (did you mean 'lr'?); this "
            "table has: name, lr, groups");
}

TEST(ConfigErrors, AnUnknownKeyAtTheTopIsFoundByFinish) {
  const ConfigNode root = table("zzz", at(7, true));
  EXPECT_EQ(error_of([&] { Fields(&root, "").finish(); }),
            "x.toml:7: unknown key 'zzz'; this table has no keys");
}

TEST(ConfigErrors, AnUnknownKeyOfAListElementIsNamedByItsIndex) {
  ConfigNode root;
  root.set_path("optimizer.groups",
                at(4, ConfigNode::Array{table("mach", text("*"))}));
  EXPECT_THAT(error_of([&] {
                Options options;
                resolved(&root, options);
              }),
              HasSubstr("x.toml:12: unknown key 'optimizer.groups[0].mach' "
                        "(did you mean 'match'?)"));
}

TEST(ConfigErrors, ASectionMustBeATable) {
  const ConfigNode root = table("optimizer", text("sgd"));
  EXPECT_EQ(error_of([&] {
              Options options;
              resolved(&root, options);
            }),
            "x.toml:12: optimizer: expected a table, found string 'sgd'");
}

TEST(ConfigErrors, AListOfTablesIsNoTable) {
  ConfigNode root;
  root.set_path("optimizer.groups", at(4, ConfigNode::Table{}));
  EXPECT_EQ(error_of([&] {
              Options options;
              resolved(&root, options);
            }),
            "x.toml:4: optimizer.groups: expected a list of tables "
            "([[optimizer.groups]]), found table");
}

TEST(ConfigErrors, RejectNamesThePlaceOfTheKey) {
  const ConfigNode root = table("width", at(3, std::int64_t{7}));
  EXPECT_EQ(
      error_of([&] { Fields(&root, "model").reject("width", "must be even"); }),
      "x.toml:3: model.width: must be even");
}

TEST(ConfigErrors, RejectOfADefaultNamesThePlaceOfTheTable) {
  const ConfigNode root = at(1, ConfigNode::Table{});
  EXPECT_EQ(
      error_of([&] { Fields(&root, "model").reject("width", "is needed"); }),
      "x.toml:1: model.width: is needed");
}

TEST(Config, AskingTwiceForAKeyIsABug) {
  Fields fields(nullptr, "");
  double value = 0;
  fields.key("lr", value, {});
  EXPECT_THROW(fields.key("lr", value, {}), InternalError);
}

TEST(Config, KnowsWhichKeysTheUserWrote) {
  const ConfigNode root = table("a", at(1, true));
  const Fields fields(&root, "");
  EXPECT_TRUE(fields.has("a"));
  EXPECT_FALSE(fields.has("b"));
  EXPECT_THAT(fields.written(), ElementsAre("a"));
}

TEST(ConfigManual, ListsEveryKeyWithItsDottedPath) {
  Fields fields(nullptr, "");
  Options().describe(fields);
  std::vector<std::string> paths;
  for (const KeyDoc& line : fields.manual()) paths.push_back(line.path);
  EXPECT_THAT(paths, ElementsAre("barrier", "epochs", "hidden", "blocks",
                                 "optimizer", "optimizer.name", "optimizer.lr",
                                 "optimizer.groups", "optimizer.groups[].match",
                                 "optimizer.groups[].lr_scale"));
}

TEST(ConfigManual, IsTheSameWhenTheListHasElements) {
  const ConfigNode root = example();
  Fields with(&root, "");
  Options().describe(with);
  Fields without(nullptr, "");
  Options().describe(without);
  ASSERT_EQ(with.manual().size(), without.manual().size());
  EXPECT_EQ(with.manual().back().path, without.manual().back().path);
  EXPECT_EQ(with.manual().back().default_value, "1.0");
}

TEST(ConfigManual, SaysTypeDefaultUnitAndLimits) {
  Fields fields(nullptr, "");
  Options().describe(fields);
  const KeyDoc& epochs = fields.manual()[1];
  EXPECT_EQ(epochs.type, "integer");
  EXPECT_EQ(epochs.default_value, "2");
  EXPECT_EQ(epochs.text, "passes");
  EXPECT_EQ(epochs.unit, "epochs");
  EXPECT_EQ(epochs.limits, "1 to 9");
}

TEST(ConfigManual, ListsTheAllowedStrings) {
  Fields fields(nullptr, "");
  Options().describe(fields);
  EXPECT_EQ(fields.manual()[5].limits, "sgd|adam");
}

/// A value of a later layer than those of at().
ConfigNode later(ConfigNode::Value value, int layer = 1) {
  return {std::move(value), {"command line", 0, layer}};
}

enum class Size { small, large };
const Names<Size> kSizes = {{"small", Size::small}, {"large", Size::large}};

TEST(ConfigNames, AnEnumeratorIsReadByItsName) {
  const ConfigNode root = table("size", text("large"));
  Size size = Size::small;
  Fields fields(&root, "");
  fields.key("size", size, kSizes, {.text = "how big"});
  EXPECT_EQ(size, Size::large);
  EXPECT_EQ(fields.resolved().literal(), "{size = \"large\"}");
  EXPECT_EQ(fields.manual().at(0).default_value, "\"small\"");
  EXPECT_EQ(fields.manual().at(0).limits, "small|large");
}

TEST(ConfigNames, AnotherNameIsRefusedWithThoseThatThereAre) {
  const ConfigNode root = table("size", text("lage"));
  EXPECT_EQ(error_of([&] {
              Size size = Size::small;
              Fields(&root, "").key("size", size, kSizes, {});
            }),
            "x.toml:12: size: unknown value 'lage' (did you mean 'large'?); "
            "allowed: small, large");
}

TEST(ConfigNames, AFlagMayHaveNamesToo) {
  const ConfigNode root = table("on_nan", text("continue"));
  bool stops = true;
  Fields(&root, "").key("on_nan", stops, {{"stop", true}, {"continue", false}},
                        {});
  EXPECT_FALSE(stops);
}

TEST(ConfigNames, AnOptionalKeyIsLeftOutWhereNobodyWroteIt) {
  std::optional<Size> size;
  Fields fields(nullptr, "");
  fields.optional("size", size, kSizes, {});
  EXPECT_FALSE(size);
  EXPECT_EQ(fields.resolved().literal(), "{}");
  EXPECT_EQ(fields.manual().at(0).path, "size");
  const ConfigNode root = table("size", text("large"));
  Fields written(&root, "");
  written.optional("size", size, kSizes, {});
  EXPECT_EQ(size, Size::large);
  EXPECT_EQ(written.resolved().literal(), "{size = \"large\"}");
}

/// Reads "kind", with "width" for one kind alone, and ends.
std::vector<DroppedKey> dropped(const ConfigNode& root) {
  Fields top(&root, "");
  top.section("head", "", [](Fields& fields) {
    std::string kind = "plain";
    double width = 1;
    fields.key("kind", kind, {.decides = true});
    if (kind == "wide") fields.key("width", width, {});
  });
  top.finish();
  return top.dropped();
}

ConfigNode wide_head() {
  ConfigNode root = table("head", table("kind", text("wide")));
  root.set_path("head.width", at(13, 2.0));
  return root;
}

TEST(ConfigDropped, ALaterChoiceDropsWhatItDoesNotKnow) {
  ConfigNode root = wide_head();
  root.set_path("head.kind", later(std::string("plain")));
  EXPECT_THAT(dropped(root),
              ElementsAre(DroppedKey{"head.width", "x.toml:13",
                                     "head.kind = \"plain\" (command line)"}));
}

TEST(ConfigDropped, NothingWhereTheChoiceStays) {
  ConfigNode root = wide_head();
  root.set_path("head.kind", later(std::string("wide")));
  root.set_path("head.with", at(14, 2.0));
  EXPECT_THAT(error_of([&] { dropped(root); }),
              HasSubstr("x.toml:14: unknown key 'head.with'"));
}

TEST(ConfigDropped, NothingOfTheChoicesOwnLayer) {
  ConfigNode root = wide_head();
  root.set_path("head.kind", later(std::string("plain")));
  root.set_path("head.width", later(3.0));
  EXPECT_THAT(error_of([&] { dropped(root); }),
              HasSubstr("command line: unknown key 'head.width'"));
}

TEST(ConfigDropped, NothingInOneLayer) {
  ConfigNode root = wide_head();
  root.set_path("head.kind", text("plain"));
  EXPECT_THAT(error_of([&] { dropped(root); }),
              HasSubstr("unknown key 'head.width'"));
}

}  // namespace sluice::config_test
