#include "experiments/plugins/registration.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"

namespace sluice::registration_test {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

/// A row that can be made: another one's loss.
LossRow loss_called(std::string_view name) {
  return {name, "a loss", losses().front().make};
}

TEST(PluginRegistration, IsInNoTableBeforeItIsWhole) {
  Plugin plugin;
  plugin.loss(loss_called("registered_late"));
  EXPECT_THAT(names_of(losses()), Not(Contains("registered_late")));
  plugin.add_to_tables();
  EXPECT_THAT(names_of(losses()), Contains("registered_late"));
}

TEST(PluginRegistration, RefusesNamesThatAreTaken) {
  Plugin plugin;
  const auto says_so = ThrowsMessage<UserError>(HasSubstr("there is one of"));
  EXPECT_THAT([&] { plugin.loss(losses().front()); }, says_so);
  plugin.loss(loss_called("registered_twice"));
  EXPECT_THAT([&] { plugin.loss(loss_called("registered_twice")); }, says_so);
  EXPECT_NO_THROW(plugin.codec(
      {"registered_twice", "of another table", codecs().front().make}));
}

TEST(PluginRegistration, RefusesNamesThatNoConfigCanSay) {
  Plugin plugin;
  for (const char* name : {"", "a b", "a.b", "'a'", "a\n"})
    EXPECT_THAT([&] { plugin.loss(loss_called(name)); },
                ThrowsMessage<UserError>(HasSubstr("letters, digits")));
}

TEST(PluginRegistration, RefusesRowsThatMakeNothing) {
  Plugin plugin;
  EXPECT_THAT(
      [&] {
        plugin.loss({"registered_empty", "", nullptr});
      },
      ThrowsMessage<UserError>(HasSubstr("nothing to make it")));
  EXPECT_THAT(
      [&] {
        plugin.policy({"registered_empty", "", {}});
      },
      ThrowsMessage<UserError>(HasSubstr("nothing to make it")));
}

TEST(PluginRegistration, CopiesWhatRowsSay) {
  Plugin plugin;
  std::string name = "registered_copy";
  plugin.loss(loss_called(name));
  name = "overwritten";
  plugin.add_to_tables();
  EXPECT_THAT(names_of(losses()), Contains("registered_copy"));
}

}  // namespace sluice::registration_test
