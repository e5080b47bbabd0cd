// 1-bit SGD: Seide, Fu, Droppo, Li and Yu 2014, "1-bit stochastic gradient
// descent and its application to data-parallel distributed training of speech
// DNNs", sections 3 and 4. Of what each output has (a row here, a column
// there), elements of either sign are sent as one bit and become the mean of
// their half; those that are 0 stay 0, where the paper counts them to the
// positive half, whose mean moved weights without a gradient (DeepSpeed wants a
// mask of these). Replicas are the owners of stripes of rows: each sends its
// bits of a stripe to the owner, which sums in the order of the replicas,
// quantises the sum with a residual of its own, and sends it to all.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/replicas/compressors/line_compressor.h"

namespace sluice {

CompressorKind compress_one_bit(Fields& fields);

namespace {

class Halves final : public LineCompressor {
 public:
  void encode(std::span<const float> values, const LinePlace& place,
              EncodedBytes& out) override {
    encode_halves(values, place.row, out);
  }
  void decode(EncodedReader& in, const LinePlace& place,
              std::span<float> values) const override {
    decode_halves(in, place.row, values);
  }
};

/// Rows of a tensor that one replica sums.
struct StripePiece {
  std::size_t tensor = 0;
  std::size_t row = 1;  ///< elements of a row
  std::size_t begin = 0;
  std::size_t size = 0;
};
using Stripe = std::vector<StripePiece>;

/// Stripes by owner: whole rows, with about as many elements for each owner.
std::vector<Stripe> stripes_of(const NamedTensors& parameters, int members) {
  std::size_t all = 0;
  for (const auto& [name, tensor] : parameters)
    all += static_cast<std::size_t>(tensor.numel());
  const auto owners = static_cast<std::size_t>(members);
  std::vector<Stripe> stripes(owners);
  std::size_t first = 0;  // element of all, of the row
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& tensor = parameters[i].second;
    const std::size_t row = output_row(tensor);
    const auto elements = static_cast<std::size_t>(tensor.numel());
    for (std::size_t begin = 0; begin < elements; begin += row, first += row) {
      Stripe& stripe = stripes[first * owners / all];
      if (begin == 0 || stripe.empty() || stripe.back().tensor != i)
        stripe.push_back({.tensor = i, .row = row, .begin = begin});
      stripe.back().size += row;
    }
  }
  return stripes;
}

std::size_t elements_in_stripe(const Stripe& stripe) {
  std::size_t elements = 0;
  for (const StripePiece& piece : stripe) elements += piece.size;
  return elements;
}

/// Residual of the sum in the stripe's layout, named after the block's first
/// parameter.
NamedTensors residual_of_sum(const NamedTensors& parameters,
                             const Stripe& stripe) {
  if (parameters.empty()) return {};
  // A checkpoint has no empty tensors.
  const auto elements = static_cast<std::int64_t>(
      std::max(elements_in_stripe(stripe), std::size_t{1}));
  return {{"compress.residual_of_sum." + parameters.front().first,
           at::zeros({elements}, at::kFloat)}};
}

class OneBit final : public GradientExchange {
 public:
  OneBit(bool has_error_feedback, const NamedTensors& parameters,
         const ReplicaSite& site)
      : stripes_(stripes_of(parameters, site.members)),
        own_(by_block(stripes_, site.member)),
        mine_(std::make_unique<Halves>()),
        sums_(std::make_unique<Halves>()) {
    if (!has_error_feedback) return;
    mine_ = with_error_feedback(std::move(mine_),
                                zeros_for(parameters, "residual"));
    sums_ = with_error_feedback(std::move(sums_),
                                residual_of_sum(parameters, own_));
  }

  void start(const Tensors& gradients, const ExchangedUpdate& /*update*/,
             Group& group) override {
    const at::NoGradGuard no_grad;
    like_ = gradients;
    const GradientLines lines(gradients);
    Tensors to_each;
    for (int owner = 1; owner <= group.members(); ++owner) {
      const Stripe& stripe = by_block(stripes_, owner);
      EncodedBytes bytes = begun(stripe);
      for (const StripePiece& piece : stripe)
        if (is_there(piece))
          mine_->encode(lines.of(piece.tensor).subspan(piece.begin, piece.size),
                        place_of(piece), bytes);
      if (owner != group.member()) count(bytes, 1);
      to_each.push_back(tensor_of_bytes(bytes));
    }
    group.start_swap(std::move(to_each));
  }

  void finish_first(Group& group) override {
    const at::NoGradGuard no_grad;
    Tensors sent = group.finish_swap();
    std::vector<float> sum(elements_in_stripe(own_));
    std::vector<float> one(sum.size());
    for (int member = 1; member <= group.members(); ++member) {
      decode(by_block(sent, member), member, own_, *mine_,
             [&, next = std::size_t{0}](const StripePiece& piece) mutable {
               return std::span(one).subspan(
                   std::exchange(next, next + piece.size), piece.size);
             });
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += one[i];
    }
    requantised_ = encoded_sum(sum);
  }

  void start_second(Group& group) override {
    const auto members = static_cast<std::size_t>(group.members());
    count(requantised_, members - 1);
    group.start_swap(Tensors(members, tensor_of_bytes(requantised_)));
  }

  Tensors finish(Group& group) override {
    const at::NoGradGuard no_grad;
    Tensors sent = group.finish_swap();
    SumLines sums(like_);
    for (int owner = 1; owner <= group.members(); ++owner)
      decode(by_block(sent, owner), owner, by_block(stripes_, owner), *sums_,
             [&](const StripePiece& piece) {
               return sums.of(piece.tensor).subspan(piece.begin, piece.size);
             });
    like_.clear();
    return sums.tensors();
  }

  NamedTensors state() const override {
    NamedTensors all = mine_->state();
    for (auto& named : sums_->state()) all.push_back(std::move(named));
    return all;
  }
  std::int64_t sent_bytes() const override { return sent_bytes_; }

 private:
  static LinePlace place_of(const StripePiece& piece) {
    return {.tensor = piece.tensor, .offset = piece.begin, .row = piece.row};
  }

  /// Whether it has a gradient: the same ones for all replicas.
  bool is_there(const StripePiece& piece) const {
    return like_[piece.tensor].defined();
  }

  std::uint64_t elements_there(const Stripe& stripe) const {
    std::uint64_t elements = 0;
    for (const StripePiece& piece : stripe)
      if (is_there(piece)) elements += piece.size;
    return elements;
  }

  EncodedBytes begun(const Stripe& stripe) const {
    EncodedBytes bytes;
    append_long_word(elements_there(stripe), bytes);
    return bytes;
  }

  EncodedBytes encoded_sum(std::span<const float> sum) {
    EncodedBytes bytes = begun(own_);
    std::size_t offset = 0;
    for (const StripePiece& piece : own_) {
      if (is_there(piece))
        sums_->encode(sum.subspan(offset, piece.size),
                      {.offset = offset, .row = piece.row}, bytes);
      offset += piece.size;
    }
    return bytes;
  }

  /// into(piece): where its elements shall be.
  template <class Into>
  void decode(at::Tensor& sent, int member, const Stripe& stripe,
              const LineCompressor& compressor, Into into) const {
    try {
      EncodedReader in(bytes_of_replica(sent, member));
      if (in.long_word() != elements_there(stripe))
        throw LinkError("of another number of elements than {}",
                        elements_there(stripe));
      for (const StripePiece& piece : stripe) {
        const std::span<float> values = into(piece);
        if (is_there(piece)) compressor.decode(in, place_of(piece), values);
      }
      in.finish();
    } catch (const LinkError& error) {
      throw LinkError("what replica {} has sent: {}", member, error.what());
    }
  }

  void count(const EncodedBytes& bytes, std::size_t times) {
    sent_bytes_ += static_cast<std::int64_t>(bytes.size() * times);
  }

  const std::vector<Stripe> stripes_;
  const Stripe& own_;
  std::unique_ptr<LineCompressor> mine_;  // of its gradients
  std::unique_ptr<LineCompressor> sums_;  // of its stripe
  Tensors like_;              // gradients of the exchange that is under way
  EncodedBytes requantised_;  // the sum of its stripe
  std::int64_t sent_bytes_ = 0;
};

/// Bytes of a gradient in two halves, where no element is zero.
double bytes_in_halves(const std::vector<TensorSizes>& all) {
  double bytes = kMessageBytes;
  for (const TensorSizes& sizes : all) {
    double elements = 1;
    for (const std::int64_t size : sizes) elements *= static_cast<double>(size);
    const double rows =
        sizes.size() > 1 ? static_cast<double>(sizes.front()) : 1.0;
    if (elements > 0)
      bytes += 4 + rows * (8 + 4 * std::ceil(elements / rows / 32));
  }
  return bytes;
}

}  // namespace

CompressorKind compress_one_bit(Fields& fields) {
  bool has_error_feedback = true;
  read_error_feedback(fields, has_error_feedback);
  CompressorKind kind{.way = ExchangeWay::to_owners, .rounds = 2};
  kind.make = [has_error_feedback](const NamedTensors& parameters,
                                   const ReplicaSite& site) {
    return std::make_unique<OneBit>(has_error_feedback, parameters, site);
  };
  kind.bytes = bytes_in_halves;
  return kind;
}

}  // namespace sluice
