// A new compressor adds its name here and one row below.
#include "lib/replicas/compressor.h"

namespace sluice {

CompressorKind compress_top_k(Fields& fields);
CompressorKind compress_threshold(Fields& fields);
CompressorKind compress_dgc(Fields& fields);
CompressorKind compress_one_bit(Fields& fields);
CompressorKind compress_qsgd(Fields& fields);
CompressorKind compress_e3m0(Fields& fields);
CompressorKind compress_sign(Fields& fields);
CompressorKind compress_power_sgd(Fields& fields);

namespace {

CompressorKind compress_nothing(Fields& /*fields*/) {
  return {};
}

}  // namespace

std::span<const CompressorRow> compressors() {
  static constexpr CompressorRow kRows[] = {
      {"none", "gradients as they are", compress_nothing},
      {"top_k", "a part of each tensor's gradient: the largest magnitudes",
       compress_top_k},
      {"threshold",
       "a sign where the gradient has reached a threshold (Strom 2015)",
       compress_threshold},
      {"dgc",
       "the largest magnitudes of a momentum, with masks and a warm-up: deep "
       "gradient compression (Lin et al. 2018)",
       compress_dgc},
      {"one_bit",
       "a bit per element and two means per output, both ways: 1-bit SGD "
       "(Seide et al. 2014)",
       compress_one_bit},
      {"qsgd",
       "a few levels of the norm, by chance and without bias: QSGD (Alistarh "
       "et al. 2017)",
       compress_qsgd},
      {"e3m0",
       "a sign and three bits of an exponent: streaming DiLoCo (Douillard et "
       "al. 2025)",
       compress_e3m0},
      {"sign",
       "the signs, of which the majority decides: signSGD (Bernstein et al. "
       "2018); with error feedback, their mean (Karimireddy et al. 2019)",
       compress_sign},
      {"power_sgd",
       "matrices as products of two thin ones: PowerSGD (Vogels et al. 2019)",
       compress_power_sgd},
  };
  return kRows;
}

}  // namespace sluice
