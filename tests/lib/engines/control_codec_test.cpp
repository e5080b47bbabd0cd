// What is said over control links, as bytes.
#include "lib/engines/control_codec.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/engines/control.h"

namespace sluice::control_codec_test {

const Grant kGrant{.first_turn = 3,
                   .end_turn = (std::int64_t{1} << 60) + 1,
                   .phase = 1,
                   .first_batch = 2,
                   .drain = true,
                   .evaluation_batches = 4,
                   .finish = true,
                   .part = TurnPart::rest};

TEST(ControlMessage, CarriesAGrantToTheLastBit) {
  EXPECT_EQ(said_in<Grant>(control_message(MessageKind::grant, kGrant)),
            kGrant);
}

TEST(ControlMessage, CarriesAFailure) {
  const auto failure = said_in<Failure>(control_message(
      MessageKind::failure, Failure{3, Cause::link, "cut \xff\n"}));
  EXPECT_EQ(failure.cause, Cause::link);
  EXPECT_EQ(failure.text, "cut \xff\n");
}

TEST(ControlMessage, CarriesWhatIsThereOnlySometimes) {
  const auto observed = [](const Observation& seen) {
    return said_in<Observation>(
        control_message(MessageKind::observation, seen));
  };
  EXPECT_EQ(observed({.block = 2, .turn = 5, .batch = 4}).batch, 4);
  EXPECT_EQ(observed({.block = 2, .turn = 5}).batch, std::nullopt);
  EXPECT_EQ(observed({.block = 2, .turn = 5}).turn, 5);
  const Observation of_replica = observed({.block = 2,
                                           .replica = 3,
                                           .turn = 5,
                                           .batch = 4,
                                           .source_batch = 14,
                                           .exchanged = true});
  EXPECT_EQ(of_replica.replica, 3);
  EXPECT_EQ(of_replica.source_batch, 14);
  EXPECT_TRUE(of_replica.exchanged);
}

TEST(ControlMessage, CarriesATime) {
  EXPECT_EQ(said_in<ClockAnswer>(
                control_message(MessageKind::clock, ClockAnswer{0.1}))
                .time,
            0.1);
}

// As of another build, whose ranks the terms refuse before.
TEST(ControlMessage, ControlMessageOfAnotherBuildIsAnErrorThatSaysSo) {
  const Message message = control_message(MessageKind::grant, ClockAnswer{0.1});
  EXPECT_THAT([&] { said_in<Grant>(message); },
              testing::ThrowsMessage<LinkError>(
                  "a grant message of 8 bytes that this program can't read: "
                  "run the same build in all processes"));
  EXPECT_THROW(said_in<Grant>({.kind = MessageKind::grant}), LinkError);
  EXPECT_THROW(said_in<Grant>(record_message({})), LinkError);
}

TEST(ControlCodec, WantsAllTheBytesAndNoMore) {
  const std::string bytes = control::encoded(kGrant);
  EXPECT_EQ(bytes.size(), 10 * sizeof(std::int64_t));
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(control::decoded<Grant>(bytes.substr(0, size)));
  EXPECT_FALSE(control::decoded<Grant>(bytes + '\0'));
}

TEST(ControlCodec, RefusesValuesThatAreNone) {
  std::string bytes = control::encoded(kGrant);
  bytes.back() = 1;
  EXPECT_FALSE(control::decoded<Grant>(bytes));  // a part above all
  bytes = control::encoded(kGrant);
  bytes[4 * sizeof(std::int64_t)] = 2;
  EXPECT_FALSE(control::decoded<Grant>(bytes));  // drain is 0 or 1
  bytes = control::encoded(Failure{.text = "long"});
  bytes[sizeof(std::int64_t)] = 5;
  EXPECT_FALSE(control::decoded<Failure>(bytes));  // a text beyond the end
}

}  // namespace sluice::control_codec_test
