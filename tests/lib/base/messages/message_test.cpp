#include "lib/base/messages/message.h"

#include <gtest/gtest.h>

#include "lib/base/error.h"

namespace sluice::message_test {

TEST(MessageKinds, HaveNames) {
  EXPECT_EQ(name_of(MessageKind::activation), "activation");
  EXPECT_EQ(name_of(MessageKind::failure), "failure");
  EXPECT_EQ(name_of(MessageKind::exchange), "exchange");
}

TEST(MessageKinds, OutsideTheListAreRefused) {
  EXPECT_FALSE(is_message_kind(0));
  EXPECT_TRUE(is_message_kind(1));
  EXPECT_TRUE(is_message_kind(12));
  EXPECT_FALSE(is_message_kind(15));
  EXPECT_THROW(name_of(MessageKind{15}), InternalError);
}

TEST(PayloadBytes, AddUpOverTheTensors) {
  Message message;
  message.tensors.push_back({.buffer = allocate_buffer(3)});
  message.tensors.push_back({.buffer = allocate_buffer(4)});
  EXPECT_EQ(payload_bytes(message), 7u);
}

}  // namespace sluice::message_test
