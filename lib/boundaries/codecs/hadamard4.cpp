// Four bits for a number: each row, in groups of up to 128, is multiplied by
// signs and rotated by a Hadamard matrix, then written in 7ths of the group's
// largest magnitude, -7..7, to the nearest, half to even. The rotation spreads
// an outlier over its group, so that its neighbours keep their bits (QuaRot:
// Ashkboos et al. 2024, arXiv:2404.00456, section 3; the same for what one
// worker sends another: Suresh et al. 2017, arXiv:1611.00429, section 3). It is
// orthogonal, so the squared error of a group is that of its codes.
//
// Rows are int8's: a sample, of a sequence a place in it. A group has as many
// numbers as a power of two, the row's last one zeros at its end; one with an
// infinity or NaN becomes NaN throughout.
//
// Parts: a byte, for the caller; codes, two in a byte [groups, length / 2];
// scales [groups]; and two bytes repeated, which carry what a shape can: the
// tensor's sizes, and the order in which its dimensions lie in memory.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "lib/boundaries/codecs/codec.h"
#include "lib/boundaries/codecs/layout.h"

namespace sluice {
namespace {

constexpr std::string_view kHadamard4 = "hadamard4";
constexpr std::int64_t kLongestGroup = 128;
constexpr int kLargestCode = 7;
constexpr int kShift = 8;  // codes are written without a sign
constexpr int kBitsOfACode = 4;
constexpr int kCodes = 1 << kBitsOfACode;

/// Numbers of a row, and of a group of it.
struct Groups {
  std::int64_t row = 1;
  std::int64_t length = 2;
  std::int64_t in_row = 1;
  std::int64_t count = 0;
};

Groups groups_of(at::IntArrayRef sizes) {
  const CodedRows rows = coded_rows_of(sizes);
  Groups groups{.row = rows.length};
  const auto wanted = static_cast<std::uint64_t>(
      std::max<std::int64_t>(2, std::min(groups.row, kLongestGroup)));
  groups.length = static_cast<std::int64_t>(std::bit_ceil(wanted));
  groups.in_row = (groups.row + groups.length - 1) / groups.length;
  groups.count = rows.count * groups.in_row;
  return groups;
}

/// Fixed signs, without which numbers that are alike would all go into one.
at::Tensor signs_of(const Groups& groups, const at::TensorOptions& options) {
  constexpr std::uint64_t kOddConstant = 0x9e3779b97f4a7c15;  // golden ratio
  std::vector<float> signs;
  for (std::int64_t i = 0; i < groups.length; ++i) {
    const std::uint64_t mixed =
        static_cast<std::uint64_t>(i + 1) * kOddConstant;
    signs.push_back(std::popcount(mixed) % 2 == 0 ? 1.0F : -1.0F);
  }
  return at::tensor(signs).to(options.device());
}

/// The product of each group [groups, length] with the Hadamard matrix, by sums
/// and differences in a fixed order, scaled to keep lengths.
at::Tensor rotated(at::Tensor groups) {
  const std::int64_t length = groups.size(1);
  for (std::int64_t half = 1; half < length; half *= 2) {
    const at::Tensor pairs =
        groups.view({groups.size(0), length / (2 * half), 2, half});
    const at::Tensor left = pairs.select(2, 0);
    const at::Tensor right = pairs.select(2, 1);
    groups = at::stack({left + right, left - right}, 2)
                 .view({groups.size(0), length});
  }
  return groups * (1 / std::sqrt(static_cast<double>(length)));
}

at::Tensor in_groups(const at::Tensor& values, const Groups& groups) {
  const at::Tensor rows = values.contiguous().view({-1, groups.row});
  const std::int64_t more = groups.in_row * groups.length - groups.row;
  return at::constant_pad_nd(rows, {0, more}).view({-1, groups.length});
}

class Hadamard4 final : public Codec {
 public:
  std::string_view name() const override { return kHadamard4; }

  bool takes(at::ScalarType) const override { return true; }

  Tensors encode(const at::Tensor& values) const override {
    const at::NoGradGuard no_grad;
    const at::Tensor byte = at::zeros({}, values.options().dtype(at::kByte));
    const Groups groups = groups_of(values.sizes());
    Tensors parts = {byte};
    if (values.numel() > 0) {
      const at::Tensor turned = rotated(in_groups(values, groups) *
                                        signs_of(groups, values.options()));
      const at::Tensor scales = std::get<0>(turned.abs().max(1)) / kLargestCode;
      // A group of zeros has 0 / 0.
      const at::Tensor codes = (turned / scales.unsqueeze(1))
                                   .round()
                                   .nan_to_num(0, 0, 0)
                                   .add(kShift)
                                   .to(at::kByte)
                                   .view({-1, groups.length / 2, 2});
      parts.push_back(codes.select(2, 0) + codes.select(2, 1) * kCodes);
      parts.push_back(scales);
    } else {
      parts.push_back(at::empty({0, 1}, byte.options()));
      parts.push_back(at::empty({0}, values.options()));
    }
    add_layout(coded_layout_of(values), values.options(), parts);
    return parts;
  }

  at::Tensor decode(const Tensors& parts) const override {
    const at::NoGradGuard no_grad;
    const CodedLayout layout = check(parts);
    const at::Tensor& scales = parts[2];
    if (parts[3].numel() == 0)
      return laid_out(at::empty(layout.sizes, scales.options()), layout);
    const Groups groups = groups_of(layout.sizes);
    const at::Tensor& bytes = parts[1];
    const at::Tensor codes =
        at::stack({bytes.bitwise_and(kCodes - 1),
                   bytes.bitwise_right_shift(kBitsOfACode)},
                  2)
            .view({-1, groups.length});
    const at::Tensor turned =
        (codes.to(at::kFloat) - kShift) * scales.unsqueeze(1);
    const at::Tensor rows =
        (rotated(turned) * signs_of(groups, scales.options()))
            .view({-1, groups.in_row * groups.length})
            .narrow(1, 0, groups.row);
    return laid_out(rows, layout);
  }

 private:
  /// Throws LinkError.
  static CodedLayout check(const Tensors& parts) {
    constexpr std::size_t kParts = 5;
    if (parts.size() != kParts || parts[0].scalar_type() != at::kByte)
      refuse_parts(kHadamard4);
    CodedLayout layout = layout_in(parts, 3, kHadamard4);
    const bool is_empty = parts[3].numel() == 0;
    const Groups groups = groups_of(layout.sizes);
    const std::int64_t count = is_empty ? 0 : groups.count;
    check_part(parts[1], at::kByte, {count, is_empty ? 1 : groups.length / 2},
               kHadamard4);
    check_part(parts[2], at::kFloat, {count}, kHadamard4);
    return layout;
  }
};

}  // namespace

std::shared_ptr<const Codec> make_hadamard4() {
  return std::make_shared<Hadamard4>();
}

}  // namespace sluice
