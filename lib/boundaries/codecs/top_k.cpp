// The numbers of the largest magnitudes, with their places; all others are 0
// where they come. Of each row (layout.h) as many are sent as `ratio` says,
// rounded up; of equal magnitudes the first ones. A row by itself: what is
// sent of a sample doesn't depend on the others in its batch, and of a sequence
// no place knows what comes after it.
//
// Activations are masked so without a memory: the next batch has other samples.
// Numbers that were not sent have no part in the loss, so their gradients are 0
// by default. What is left then are no more than k numbers of a row, all of
// which go down.
//
// Gradients have error feedback by default: what was left out in a row of the
// batch is added to the gradient that comes in that row next, of another
// sample. Aji and Heafield 2017 (arXiv:1704.05021) and Stich et al. 2018
// (arXiv:1809.07599) do so with gradients of weights, which are the same ones
// in every step; here whether it helps is a run's to show.
//
// Parts: a byte, for the caller; values [rows, k] float32; places [rows, k],
// ascending, in the shortest integers that hold a row's; and the layout.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <tuple>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "lib/base/config.h"
#include "lib/boundaries/codecs/codec.h"
#include "lib/boundaries/codecs/feedback.h"
#include "lib/boundaries/codecs/layout.h"

namespace sluice {

BoundaryCodecs configure_top_k(Fields& options, CodecWays ways);

namespace {

constexpr std::string_view kTopK = "top_k";

/// The shortest type of places in a row of that length.
at::ScalarType type_of_places(std::int64_t length) {
  constexpr std::int64_t kBytes = 256;
  constexpr std::int64_t kShorts = 32768;
  if (length <= kBytes) return at::kByte;
  return length <= kShorts ? at::kShort : at::kInt;
}

struct TopKOptions {
  double ratio = 0.05;
  bool masks_gradients = true;  // at activations
  bool has_feedback = true;     // of gradients
};

class TopKCodec final : public Codec {
 public:
  explicit TopKCodec(const TopKOptions& options) : options_(options) {}

  std::string_view name() const override { return kTopK; }

  bool takes(at::ScalarType) const override { return true; }

  Tensors encode(const at::Tensor& values) const override {
    const at::NoGradGuard no_grad;
    const KeptNumbers kept = kept_of(values.sizes(), values.numel());
    const at::Tensor rows = in_rows_of(values, kept);
    const at::Tensor places = std::get<0>(largest_in(rows, kept).sort(1));
    Tensors parts = {at::zeros({}, values.options().dtype(at::kByte)),
                     rows.gather(1, places),
                     places.to(type_of_places(kept.rows.length))};
    add_layout(coded_layout_of(values), values.options(), parts);
    return parts;
  }

  at::Tensor decode(const Tensors& parts) const override {
    const at::NoGradGuard no_grad;
    const CodedLayout layout = check(parts);
    const CodedRows rows = coded_rows_of(layout.sizes);
    const at::Tensor numbers =
        at::zeros({rows.count, rows.length}, parts[1].options())
            .scatter(1, parts[2].to(at::kLong), parts[1]);
    return laid_out(numbers, layout);
  }

  std::unique_ptr<CodecEnd> sender(const CodecSite&) const override {
    return options_.has_feedback
               ? with_feedback(std::make_shared<TopKCodec>(options_))
               : nullptr;
  }

  // Numbers that came are the largest of their rows again.
  at::Tensor sent_of(const at::Tensor& came) const override {
    if (!options_.masks_gradients) return {};
    const KeptNumbers kept = kept_of(came.sizes(), came.numel());
    if (kept.count == kept.rows.length) return {};
    const at::Tensor rows = in_rows_of(came, kept);
    return at::zeros(rows.sizes(), rows.options().dtype(at::kBool))
        .scatter(1, largest_in(rows, kept), true)
        .view(came.sizes());
  }

 private:
  struct KeptNumbers {
    CodedRows rows;
    std::int64_t count = 0;  ///< of each row
  };

  static at::Tensor in_rows_of(const at::Tensor& values,
                               const KeptNumbers& kept) {
    return values.contiguous().view({kept.rows.count, kept.rows.length});
  }

  /// Places of the largest magnitudes of each row, of equal ones the first.
  static at::Tensor largest_in(const at::Tensor& rows,
                               const KeptNumbers& kept) {
    return std::get<1>(at::sort(rows.abs(), /*stable=*/true, /*dim=*/1,
                                /*descending=*/true))
        .narrow(1, 0, kept.count);
  }

  KeptNumbers kept_of(at::IntArrayRef sizes, std::int64_t numbers) const {
    KeptNumbers kept{.rows = coded_rows_of(sizes)};
    if (numbers > 0)
      kept.count = static_cast<std::int64_t>(
          std::ceil(options_.ratio * static_cast<double>(kept.rows.length)));
    return kept;
  }

  CodedLayout check(const Tensors& parts) const {
    constexpr std::size_t kParts = 5;
    if (parts.size() != kParts || parts[0].scalar_type() != at::kByte)
      refuse_parts(kTopK);
    CodedLayout layout = layout_in(parts, 3, kTopK);
    const KeptNumbers kept = kept_of(layout.sizes, parts[3].numel());
    const std::vector<std::int64_t> sizes = {kept.rows.count, kept.count};
    check_part(parts[1], at::kFloat, sizes, kTopK);
    check_part(parts[2], type_of_places(kept.rows.length), sizes, kTopK);
    if (parts[2].numel() > 0 && !are_places(parts[2], kept))
      refuse_parts(kTopK);
    return layout;
  }

  /// Whether there are so many different places in each row.
  static bool are_places(const at::Tensor& part, const KeptNumbers& kept) {
    const at::Tensor places = part.to(at::kLong);
    const at::Tensor rise =
        places.slice(1, 1) - places.slice(1, 0, kept.count - 1);
    return places.select(1, 0).ge(0).all().item<bool>() &&
           places.select(1, kept.count - 1)
               .lt(kept.rows.length)
               .all()
               .item<bool>() &&
           rise.gt(0).all().item<bool>();
  }

  TopKOptions options_;
};

}  // namespace

BoundaryCodecs configure_top_k(Fields& options, CodecWays ways) {
  TopKOptions read;
  options.key("ratio", read.ratio,
              {.text = "part of the numbers of each sample that is sent, of a "
                       "sequence of each place in it, rounded up; 1: all",
               .min = 1e-9,
               .max = 1});
  if (ways.up)
    options.key("mask_gradients", read.masks_gradients,
                {.text = "activations: gradients at numbers that were not sent "
                         "are 0, as of a network that masks them; false: "
                         "they are what they were at the 0 that came"});
  if (ways.down)
    options.key("error_feedback", read.has_feedback,
                {.text = "gradients: what was not sent in a row of a batch is "
                         "added to the gradient in that row of the next one; a "
                         "part of the checkpoint"});
  TopKOptions of_activations = read;
  of_activations.has_feedback = false;
  return {.up = std::make_shared<TopKCodec>(of_activations),
          .down = std::make_shared<TopKCodec>(read)};
}

}  // namespace sluice
