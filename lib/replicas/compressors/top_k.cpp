// The largest magnitudes of each tensor's gradient; what is left out is added
// to the next one: Stich, Cordonnier and Jaggi 2018, "Sparsified SGD with
// memory" (arXiv:1809.07599), algorithm 1 with all replicas and without the
// rate in its memory.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "lib/replicas/compressors/line_compressor.h"

namespace sluice {

CompressorKind compress_top_k(Fields& fields);

namespace {

std::uint64_t kept_of(double ratio, std::size_t elements) {
  return static_cast<std::uint64_t>(
      std::ceil(ratio * static_cast<double>(elements)));
}

/// What is chosen, and among which elements.
struct Choice {
  double ratio = 0.01;
  std::size_t chunk = 0;  // elements; 0: those of the tensor

  std::size_t size_at(std::size_t begin, std::size_t elements) const {
    const std::size_t left = elements - begin;
    return chunk == 0 ? left : std::min(chunk, left);
  }
};

class TopK final : public LineCompressor {
 public:
  explicit TopK(const Choice& choice) : choice_(choice) {}

  void encode(std::span<const float> values, const LinePlace& /*place*/,
              EncodedBytes& out) override {
    for_each_chunk(values, [&](std::span<const float> chunk) {
      encode_sparse(chunk, largest(chunk, kept_of(choice_.ratio, chunk.size())),
                    out);
    });
  }
  void decode(EncodedReader& in, const LinePlace& /*place*/,
              std::span<float> values) const override {
    for_each_chunk(values,
                   [&](std::span<float> chunk) { decode_sparse(in, chunk); });
  }

 private:
  /// A line without elements is one chunk.
  template <class Value, class Function>
  void for_each_chunk(std::span<Value> line, const Function& function) const {
    std::size_t begin = 0;
    do {
      const std::size_t size = choice_.size_at(begin, line.size());
      function(line.subspan(begin, size));
      begin += size;
    } while (begin < line.size());
  }

  const Choice choice_;
};

double bytes_of_chosen(const Choice& choice, double elements) {
  const auto bytes = [&](double size) {
    return 4 + 8 * std::ceil(choice.ratio * size);
  };
  if (choice.chunk == 0) return bytes(elements);
  const auto size = static_cast<double>(choice.chunk);
  const double whole = std::floor(elements / size);
  const double rest = elements - whole * size;
  return whole * bytes(size) + (rest > 0 ? bytes(rest) : 0);
}

}  // namespace

CompressorKind compress_top_k(Fields& fields) {
  Choice choice;
  std::int64_t chunk = 0;
  bool has_error_feedback = true;
  double error_decay = 1;
  fields.key("ratio", choice.ratio,
             {.text = "part of each tensor's elements that is sent, rounded "
                      "up; 1: all, uncompressed",
              .min = 1e-9,
              .max = 1});
  fields.key("chunk", chunk,
             {.text = "elements of a tensor, one beside the other, among which "
                      "that part is chosen (SparseLoCo: 4096); 0: all of it",
              .unit = "elements",
              .min = 0,
              .max = 1e9});
  read_error_feedback(fields, has_error_feedback);
  fields.key("error_decay", error_decay,
             {.text = "part of what was left out that error feedback keeps for "
                      "the next exchange (SparseLoCo: 0.95)",
              .min = 0,
              .max = 1});
  choice.chunk = static_cast<std::size_t>(chunk);
  if (choice.ratio == 1) return {};
  return gathered(
      [choice](const NamedTensors&, const ReplicaSite&) {
        return std::make_unique<TopK>(choice);
      },
      [choice](double elements) { return bytes_of_chosen(choice, elements); },
      has_error_feedback, error_decay);
}

}  // namespace sluice
