#include "experiments/data/files/npy_file.h"

#include <algorithm>
#include <span>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/experiments/data/packed_test_files.h"

namespace sluice::npy_file_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

PackedArray header_of(const Bytes& file) {
  return read_npy_header(
      std::span(file).first(std::min(file.size(), kMostNpyHead)), "a.npy",
      file.size());
}

std::string refusal(const Bytes& file) {
  return error_of([&] { header_of(file); });
}

std::string refusal(const std::string& text, std::size_t bytes = 24) {
  return refusal(npy_with(text, Bytes(bytes)));
}

const std::string kText =
    "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";

TEST(ANpyHeader, HeaderOfEveryVersionHasTypeSizesAndBeginOfTheNumbers) {
  for (const std::uint8_t version : {1, 2, 3}) {
    const PackedArray array = header_of(npy_with(kText, Bytes(24), version));
    EXPECT_EQ(array.dtype, DType::float32);
    EXPECT_THAT(array.sizes, ElementsAre(2, 3));
    EXPECT_EQ(array.begin, kText.size() + (version == 1 ? 10 : 12));
  }
}

TEST(ANpyHeader, MayHaveItsKeysInAnyOrderAndPaddingBehind) {
  const PackedArray array = header_of(npy_with(
      "{\"shape\":(4,),\"fortran_order\":False,\"descr\":\"|u1\"}     \n",
      Bytes(4)));
  EXPECT_EQ(array.dtype, DType::uint8);
  EXPECT_THAT(array.sizes, ElementsAre(4));
  EXPECT_THAT(header_of(npy_of("<i8", "()", Bytes(8))).sizes, IsEmpty());
  EXPECT_THAT(header_of(npy_of("<i8", "(0, 5)", {})).sizes, ElementsAre(0, 5));
}

TEST(ANpyHeader, HeaderOfNumbersThatAreReadOtherwiseIsRefusedWithTheRemedy) {
  EXPECT_THAT(
      refusal("{'descr': '>f4', 'fortran_order': False, 'shape': (6,)}"),
      HasSubstr("big-endian; save them little-endian"));
  EXPECT_THAT(refusal("{'descr': '<f4', 'fortran_order': True, 'shape': (6,)}"),
              HasSubstr("Fortran's order; save numpy.ascontiguousarray()"));
  EXPECT_THAT(refusal("{'descr': '|O', 'fortran_order': False, 'shape': (6,)}"),
              HasSubstr("holds '|O'; save it as float32"));
  EXPECT_THAT(refusal("{'descr': [('x', '<f4')], 'fortran_order': False, "
                      "'shape': (6,)}"),
              HasSubstr("holds records"));
}

TEST(ANpyHeader, ThatIsDamagedIsRefusedInOneLine) {
  for (const std::string text :
       {"", "{", "{}", "{'descr': '<f4'}", "no",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)} x",
        "{'descr': '<f4', 'descr': '<f4', 'shape': (2, 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-2, -3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 3)}",
        "{'descr': '<f4\n', 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': "
        "(99999999999999999999,)}"})
    EXPECT_THAT(refusal(text),
                AllOf(HasSubstr("a.npy: its .npy header is damaged"),
                      Not(HasSubstr("\n"))))
        << text;
}

TEST(ANpyFile, WithMoreOrFewerBytesThanItsHeaderSaysIsRefused) {
  EXPECT_THAT(refusal(kText, 23), HasSubstr("has 23 bytes behind its header"));
  EXPECT_THAT(refusal(kText, 25), HasSubstr("type need 24"));
  EXPECT_THAT(refusal("{'descr': '<f4', 'fortran_order': False, 'shape': "
                      "(4611686018427387904, 4611686018427387904)}"),
              HasSubstr("overflows"));
}

TEST(ANpyFile, NpyFileOfAnotherFormatOrVersionIsRefused) {
  EXPECT_THAT(refusal(Bytes{}), HasSubstr("not a .npy file"));
  EXPECT_THAT(refusal(Bytes(100, 'x')), HasSubstr("not a .npy file"));
  EXPECT_THAT(refusal(npy_with(kText, Bytes(24), 4)), HasSubstr("version 4"));
  Bytes longer = npy_with(kText, Bytes(24));
  longer[9] = 0xff;  // its length
  EXPECT_THAT(refusal(longer), HasSubstr("behind the file's end"));
}

}  // namespace sluice::npy_file_test
