// A new codec adds its name here and one row below.
#include "lib/base/added_rows.h"
#include "lib/base/config.h"
#include "lib/boundaries/codecs/codec.h"

namespace sluice {

using MakePlain = std::shared_ptr<const Codec>();
MakePlain make_fp16, make_bf16, make_int8, make_hadamard4, make_downsample;
using Configure = BoundaryCodecs(Fields& options, CodecWays ways);
Configure configure_top_k, configure_delta, configure_low_rank,
    configure_codebook;

namespace {

std::shared_ptr<const Codec> make_none() {
  return nullptr;
}

}  // namespace

std::shared_ptr<const Codec> MakeCodec::operator()() const {
  if (plain != nullptr) return plain();
  Fields defaults(nullptr, "");
  return configure(defaults, {}).up;
}

std::span<const CodecRow> codecs() {
  static constexpr CodecRow kRows[] = {
      {"none", "tensors as they are", {make_none}},
      {"fp16",
       "2 bytes: 11 significant bits, magnitudes up to 65504",
       {make_fp16}},
      {"bf16",
       "2 bytes: 8 significant bits, magnitudes as float32",
       {make_bf16}},
      {"int8",
       "1 byte, and 4 per row: 127ths of the row's largest magnitude; a row is "
       "a sample, of a sequence a place in it",
       {make_int8}},
      {"hadamard4",
       "half a byte, and 4 for each 128 numbers: 7ths of the largest magnitude "
       "after a rotation that spreads outliers",
       {make_hadamard4}},
      {"downsample",
       "of maps [C, H, W] a quarter: the means of 2 x 2 pixels, each of which "
       "stands for the four; nothing else",
       {make_downsample}},
      {"top_k",
       "the largest magnitudes of each row of int8's, that part of it, with "
       "their places; the others are 0",
       {.configure = configure_top_k}},
      {"delta",
       "of activations the difference from the sample's last one, in 4, 8 or "
       "32 bits; both ends keep one for each sample",
       {.configure = configure_delta, .goes_down = false}},
      {"low_rank",
       "fewer channels, by a linear map that the block below learns, and one "
       "back that the block above learns; gradients come at the fewer ones",
       {.configure = configure_low_rank, .goes_both_ways = true}},
      {"codebook",
       "of activations the place of the nearest vector in a book that learns "
       "by moving averages and goes with each message",
       {.configure = configure_codebook, .goes_down = false}},
  };
  return with_added<MakeCodec>(kRows);
}

}  // namespace sluice
