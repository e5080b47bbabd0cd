#include "experiments/config/numbers.h"

#include <string>

#include <gtest/gtest.h>

#include "tests/experiments/helpers/training.h"

namespace sluice::numbers_test {

ConfigNode numbers(const std::string& lines) {
  return numbers_of(small_experiment(lines).resolved);
}

/// Runs from before the key existed had the numbers of false.
TEST(Numbers, HaveTf32OnlyWhereItIsSet) {
  EXPECT_EQ(numbers("").find("tf32"), nullptr);
  EXPECT_EQ(numbers("tf32 = false\n"), numbers(""));
  EXPECT_EQ(first_difference(numbers("tf32 = true\n"), numbers("")),
            "tf32 is true, not absent");
}

TEST(Numbers, HaveProbesOfLayersOnlyWhereTheyAreAskedFor) {
  EXPECT_EQ(numbers("probe = {every = 2, layers = false}\n"),
            numbers("probe = {every = 2}\n"));
  EXPECT_EQ(first_difference(numbers("probe = {every = 2, layers = true}\n"),
                             numbers("probe = {every = 2}\n")),
            "probe.layers is true, not absent");
}

TEST(Numbers, HaveALimitOfSamplesOnlyWhereThereIsOne) {
  EXPECT_EQ(numbers("").find("limit"), nullptr);
  EXPECT_EQ(first_difference(numbers("limit = {train = 64}\n"), numbers("")),
            "limit is {train = 64}, not absent");
  EXPECT_NE(first_difference(numbers("limit = {train = 64}\n"),
                             numbers("limit = {train = 64, evaluation = 8}\n")),
            "");
}

TEST(Numbers, HaveAnAssistantOnlyWhereThereIsOne) {
  const auto with = [](const std::string& assist) {
    return numbers(
        "boundary = {policy = 'backprop'}\n"
        "data = {train = 320, test = 64" +
        assist + "}\n");
  };
  EXPECT_EQ(with("").find("data")->find("assist"), nullptr);
  EXPECT_EQ(with(", assist = {learning_rate = 1.0}"), with(""));
  EXPECT_NE(with(", assist = {acceptance = 0.3}"), with(""));
}

TEST(Numbers, HaveFineTuningOnlyWhereSomeWeightsDoNotTrain) {
  EXPECT_EQ(numbers("").find("fine_tune"), nullptr);
  EXPECT_EQ(numbers("fine_tune = {train = [], lora = {rank = 0}}\n"),
            numbers(""));
  EXPECT_NE(numbers("fine_tune.train = ['layers.0.*']\n").find("fine_tune"),
            nullptr);
  EXPECT_NE(numbers("fine_tune.lora.rank = 1\n").find("fine_tune"), nullptr);
}

TEST(Numbers, HaveAnEchoOnlyWhereBatchesComeAgain) {
  const auto with = [](const std::string& echo) {
    return numbers(
        "boundary = {policy = 'backprop'}\n"
        "data = {train = 320, test = 64" +
        echo + "}\n");
  };
  EXPECT_EQ(with("").find("data")->find("echo"), nullptr);
  EXPECT_NE(with(", echo = {times = 2}"), with(""));
}

/// Wherever the config says of one.
TEST(Numbers, HaveTheKindOfMasksWhereALayerDrawsThem) {
  const auto layers = [](const std::string& types) {
    return "blocks = 1\nmodel = {name = 'layers', layer = [{type = "
           "'flatten'}, " +
           types + "{type = 'linear'}]}\n";
  };
  for (const std::string& plain :
       {std::string("blocks = 1\nmodel = {hidden = [24], dropout = 0.0}\n"),
        layers("")})
    EXPECT_EQ(numbers("masks = 1\n" + plain), numbers("masks = 2\n" + plain))
        << plain;
  for (const std::string& dropped :
       {std::string("blocks = 1\nmodel = {hidden = [24], dropout = 0.1}\n"),
        layers("{type = 'dropout', p = 0.1}, ")})
    EXPECT_EQ(first_difference(numbers("masks = 1\n" + dropped),
                               numbers("masks = 2\n" + dropped))
                  .find("masks is 1, not "),
              0U)
        << dropped;
}

TEST(Numbers, HaveAWarmUpInTurnsOnlyWhereThereIsOne) {
  EXPECT_EQ(first_difference(
                numbers("optimizer = {schedule = {warmup_turns = 5}}\n"),
                numbers("optimizer = {schedule = {warmup_turns = 0}}\n")),
            "optimizer.1.schedule.warmup_turns is 5, not absent");
}

TEST(Numbers, HaveATailAverageOnlyWhereThereIsOne) {
  EXPECT_EQ(first_difference(numbers("optimizer = {tail_average = 0.5}\n"),
                             numbers("optimizer = {tail_average = 0}\n")),
            "optimizer.1.tail_average is 0.5, not absent");
}

TEST(Numbers, HaveStepsOfVariablesOnlyWhereTheyAreByAdam) {
  const auto with = [](const std::string& step) {
    return numbers("blocks = 2\nboundary = {policy = 'penalty', step = '" +
                   step + "'}\n");
  };
  EXPECT_EQ(first_difference(with("adam"), with("gradient")),
            "boundary.1.step is \"adam\", not absent");
}

TEST(Numbers, HaveFactorsOfSamplesOnlyWhereTheyAreKept) {
  const auto with = [](const std::string& more) {
    return numbers(
               "blocks = 2\nmodel = {hidden = [8]}\nboundary = {policy = "
               "'nmf'" +
               more + "}\n")
        .literal();
  };
  EXPECT_EQ(with("").find("memory = "), std::string::npos);
  EXPECT_NE(with(", memory = 'sample'").find("memory = \"sample\""),
            std::string::npos);
}

TEST(Numbers, HaveAPlaceOfClippingOnlyWhereItIsAnother) {
  const auto with = [](const std::string& at) {
    return numbers("optimizer = {clip = {norm = 1, at = '" + at + "'}}\n");
  };
  EXPECT_EQ(first_difference(with("replica"), with("update")),
            "optimizer.1.clip.at is \"replica\", not absent");
}

/// Optimizers of what ends train count too.
TEST(Numbers, HaveNoWarmUpInTurnsOfAnyOptimizerWithoutOne) {
  const auto with = [](const std::string& schedule) {
    return numbers(
               "blocks = 2\nboundary = {policy = 'synthetic_gradient', unlock "
               "= {hidden = 1, width = 16, optimizer = {name = 'sgd', lr = "
               "0.001" +
               schedule + "}}}\n")
        .literal();
  };
  EXPECT_EQ(with("").find("warmup_turns"), std::string::npos);
  EXPECT_NE(with(", schedule = {warmup_turns = 5}").find("warmup_turns = 5"),
            std::string::npos);
}

TEST(Numbers, HaveACompressorOnlyWhereThereIsOne) {
  EXPECT_EQ(numbers("").find("replicas")->find("compress"), nullptr);
  EXPECT_NE(numbers("replicas = {count = 2, compress = 'top_k'}\n"),
            numbers("replicas = {count = 2}\n"));
  const auto elastic = [](const std::string& more) {
    return numbers("replicas = {count = 2, policy = 'elastic'" + more + "}\n");
  };
  EXPECT_EQ(elastic("").find("replicas")->find("one_by_one"), nullptr);
  EXPECT_NE(elastic(", one_by_one = true"), elastic(""));
}

}  // namespace sluice::numbers_test
