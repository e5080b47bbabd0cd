// A new codec adds its name here and one row below.
#include "lib/base/added_rows.h"
#include "lib/boundaries/codecs/codec.h"

namespace sluice {

using MakeCodec = std::shared_ptr<const Codec>();
MakeCodec make_fp16, make_bf16, make_int8, make_hadamard4, make_downsample;

namespace {

std::shared_ptr<const Codec> make_none() {
  return nullptr;
}

}  // namespace

std::span<const CodecRow> codecs() {
  static constexpr CodecRow kRows[] = {
      {"none", "tensors as they are", make_none},
      {"fp16", "2 bytes: 11 significant bits, magnitudes up to 65504",
       make_fp16},
      {"bf16", "2 bytes: 8 significant bits, magnitudes as float32", make_bf16},
      {"int8",
       "1 byte, and 4 per row: 127ths of the row's largest magnitude; a row is "
       "a sample, of a sequence a place in it",
       make_int8},
      {"hadamard4",
       "half a byte, and 4 for each 128 numbers: 7ths of the largest magnitude "
       "after a rotation that spreads outliers",
       make_hadamard4},
      {"downsample",
       "of maps [C, H, W] a quarter: the means of 2 x 2 pixels, each of which "
       "stands for the four; nothing else",
       make_downsample},
  };
  return with_added<std::shared_ptr<const Codec> (*)()>(kRows);
}

}  // namespace sluice
