#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace sluice {

/// The oracle: what R replicas make of their gradients of one tensor in all
/// updates of a run, as the papers say it, in plain loops over numbers: nothing
/// is encoded or sent. Labels are those of the specification (parallel,
/// A15-A17, A20-A22).
class PlainCompressor {
 public:
  using Numbers = std::vector<float>;
  virtual ~PlainCompressor() = default;
  /// The sum of what the replicas' gradients become; update: from 0, epoch:
  /// that of its turn.
  virtual Numbers sum(const std::vector<Numbers>& gradients,
                      std::int64_t update, double epoch) = 0;
};

/// A tensor [rows, size / rows] of that name; of one dimension it has one row.
struct PlainTensor {
  std::string name;
  std::size_t size = 0;
  std::size_t rows = 1;
  std::size_t replicas = 1;
  std::uint64_t seed = 1;
};
using MakePlainCompressor =
    std::function<std::unique_ptr<PlainCompressor>(const PlainTensor&)>;

MakePlainCompressor plain_top_k(double ratio);
MakePlainCompressor plain_threshold(float threshold);
/// warmup: epochs.
MakePlainCompressor plain_dgc(double ratio, float momentum, bool masking,
                              double warmup);
MakePlainCompressor plain_one_bit();
MakePlainCompressor plain_qsgd(int levels, std::size_t bucket);
/// Parts 0 and 2^-6 to 1 of the largest magnitude of so many elements,
/// the nearest; of two as near the larger.
MakePlainCompressor plain_e3m0(std::size_t bucket);
MakePlainCompressor plain_majority(float momentum);
MakePlainCompressor plain_scaled_signs();
MakePlainCompressor plain_power_sgd(std::size_t rank);

}  // namespace sluice
