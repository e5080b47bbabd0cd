#include "experiments/api/network_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/config/files/toml.h"
#include "tests/experiments/api/small_network.h"

namespace sluice::network_options_test {

TEST(NetworkOptions, AmountToTheConfigThatSaysTheSame) {
  NetworkOptions options = small_network(
      {"local_loss, head = {name = 'predsim'}",
       parse_toml("policy = 'fully_decoupled'\nbeta = 0.5", "here")},
      "seed = 4");
  options.optimizer = "adam, lr = 1e-3";
  EXPECT_EQ(config_of(options), parse_toml(R"(
threads = 1
seed = 4
blocks = ["0-1", "2-3", "4-"]
boundary.1 = {policy = "local_loss", head = {name = "predsim"}}
boundary.2 = {policy = "fully_decoupled", beta = 0.5}
optimizer = {name = "adam", lr = 1e-3}
)",
                                           "expected"));
}

TEST(NetworkOptions, OnePolicyHoldsForAllBoundaries) {
  const ConfigNode config = config_of(small_network({"backprop"}));
  EXPECT_EQ(*config.find("boundary"),
            parse_toml("policy = 'backprop'", "expected"));
}

TEST(NetworkOptions, WhatIsSaidTwiceIsRefused) {
  const auto refusal = [](const char* settings) {
    return complaint_of(
        [&] { config_of(small_network({"backprop"}, settings)); });
  };
  EXPECT_THAT(refusal("optimizer = {lr = 1}"),
              testing::HasSubstr("NetworkOptions::optimizer"));
  EXPECT_THAT(refusal("blocks = ['0-']"),
              testing::HasSubstr("NetworkOptions::cuts"));
  EXPECT_THAT(refusal("boundary = {policy = 'backprop'}"),
              testing::HasSubstr("NetworkOptions::boundaries"));
}

}  // namespace sluice::network_options_test
