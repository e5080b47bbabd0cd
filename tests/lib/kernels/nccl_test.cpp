// NCCL where there is none.
#include "lib/kernels/nccl.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"

namespace sluice::nccl_test {

using testing::HasSubstr;

std::string refusal_of(const std::string& library) {
  try {
    load_nccl(library);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(LoadNccl, OneThatIsMissingIsToldWithTheRemedy) {
  const std::string text = refusal_of("/nowhere/libnccl.so.2");
  EXPECT_THAT(text, HasSubstr("/nowhere/libnccl.so.2"));
  EXPECT_THAT(text, HasSubstr("set group = 'links'"));
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

TEST(LoadNccl, AnotherLibraryIsToldByTheNameThatItLacks) {
  EXPECT_THAT(refusal_of("libc.so.6"), HasSubstr("no ncclGetVersion"));
}

}  // namespace sluice::nccl_test
