// What a codec sends, made smaller by zstd (RFC 8878) without loss. Codes are
// spread unevenly over their bytes, and most differences and places are small.
//
// Parts: a byte, for the caller; flags [parts of the codec], 1 for one that is
// packed; then these parts in order. A packed one is its bytes, in the order in
// which they lie; an empty tensor of its type; and its layout. Small parts, and
// those that zstd doesn't make smaller, are sent as they are.
#include "lib/boundaries/codecs/zstd.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <zstd.h>

#include "lib/base/error.h"
#include "lib/boundaries/codecs/layout.h"

namespace sluice {
namespace {

constexpr std::size_t kFlags = 1;
constexpr std::size_t kFirst = 2;  // of the codec's parts
constexpr std::size_t kPartsOfPacked = 4;
constexpr std::size_t kLeastBytes = 64;  // of a part that is packed

/// No frame holds more bytes for each of its own: a block has at most 128 KiB,
/// and takes 4 bytes at least (RFC 8878, 3.1.1.2).
constexpr std::size_t kMostRatio = 1 << 15;

/// The bytes [n] of a part in the order in which they lie, on the host.
at::Tensor bytes_of(const at::Tensor& part, const CodedLayout& layout) {
  return part.permute(layout.order)
      .contiguous()
      .to(at::kCPU)
      .view({-1})
      .view(at::kByte);
}

/// The bytes of the part in zstd; nothing where that isn't smaller.
std::optional<at::Tensor> compressed(const at::Tensor& bytes, int level) {
  const auto size = static_cast<std::size_t>(bytes.numel());
  at::Tensor packed = at::empty(
      {static_cast<std::int64_t>(ZSTD_compressBound(size))}, at::kByte);
  const std::size_t length =
      ZSTD_compress(packed.data_ptr(), static_cast<std::size_t>(packed.numel()),
                    bytes.const_data_ptr(), size, level);
  SLUICE_CHECK(ZSTD_isError(length) == 0, "zstd: {}",
               ZSTD_getErrorName(length));
  if (length >= size) return std::nullopt;
  return packed.narrow(0, 0, static_cast<std::int64_t>(length)).clone();
}

class Zstd final : public Codec, public std::enable_shared_from_this<Zstd> {
 public:
  Zstd(std::shared_ptr<const Codec> codec, int level)
      : codec_(std::move(codec)), level_(level) {}

  std::string_view name() const override { return codec_->name(); }
  const Codec& for_plans() const override { return codec_->for_plans(); }
  bool takes(at::ScalarType type) const override { return codec_->takes(type); }
  bool wants_samples() const override { return codec_->wants_samples(); }
  at::Tensor sent_of(const at::Tensor& came) const override {
    return codec_->sent_of(came);
  }

  Tensors encode(const at::Tensor& values) const override {
    return packed(codec_->encode(values));
  }
  at::Tensor decode(const Tensors& parts) const override {
    return codec_->decode(unpacked(parts));
  }
  std::unique_ptr<CodecEnd> sender(const CodecSite& site) const override {
    return around(codec_->sender(site));
  }
  std::unique_ptr<CodecEnd> receiver(const CodecSite& site) const override {
    return around(codec_->receiver(site));
  }

  Tensors packed(const Tensors& parts) const;
  /// Throws LinkError for what packed() can't have made.
  Tensors unpacked(const Tensors& parts) const;

 private:
  at::Tensor unpacked(const Tensors& parts, std::size_t at) const;
  at::Tensor empty_on_host(const std::vector<std::int64_t>& sizes,
                           at::ScalarType type) const;
  std::unique_ptr<CodecEnd> around(std::unique_ptr<CodecEnd> end) const;

  std::shared_ptr<const Codec> codec_;
  int level_;
};

Tensors Zstd::packed(const Tensors& parts) const {
  const at::NoGradGuard no_grad;
  const at::TensorOptions on = parts.front().options();
  std::vector<std::uint8_t> flags;
  Tensors after;
  for (const at::Tensor& part : parts) {
    const bool may_pay =
        part.nbytes() >= kLeastBytes && part.is_non_overlapping_and_dense();
    const CodedLayout layout = coded_layout_of(part);
    const std::optional<at::Tensor> smaller =
        may_pay ? compressed(bytes_of(part, layout), level_) : std::nullopt;
    flags.push_back(smaller ? 1 : 0);
    if (!smaller) {
      after.push_back(part);
      continue;
    }
    after.push_back(smaller->to(on.device()));
    after.push_back(at::empty({0}, part.options()));
    add_layout(layout, part.options(), after);
  }
  Tensors all = {at::zeros({}, on.dtype(at::kByte)),
                 at::tensor(flags, at::kByte).to(on.device())};
  all.insert(all.end(), after.begin(), after.end());
  return all;
}

Tensors Zstd::unpacked(const Tensors& parts) const {
  const at::NoGradGuard no_grad;
  if (parts.size() <= kFirst) refuse_parts(name());
  check_part(parts[kFlags], at::kByte, {parts[kFlags].numel()}, name());
  const at::Tensor flags = parts[kFlags].to(at::kCPU);
  Tensors all;
  std::size_t at = kFirst;
  for (std::int64_t i = 0; i < flags.numel(); ++i) {
    const bool is_packed = flags.const_data_ptr<std::uint8_t>()[i] != 0;
    const std::size_t length = is_packed ? kPartsOfPacked : 1;
    if (at + length > parts.size()) refuse_parts(name());
    all.push_back(is_packed ? unpacked(parts, at) : parts[at]);
    at += length;
  }
  // A repeated dimension of the first one is the caller's to expand.
  if (at != parts.size() || all.empty() ||
      !all.front().is_non_overlapping_and_dense())
    refuse_parts(name());
  return all;
}

at::Tensor Zstd::unpacked(const Tensors& parts, std::size_t at) const {
  const CodedLayout layout = layout_in(parts, at + 2, name());
  check_part(parts[at], at::kByte, {parts[at].numel()}, name());
  const at::Tensor packed = parts[at].to(at::kCPU);
  const at::Tensor& like = parts[at + 1];
  const auto length = static_cast<std::size_t>(packed.numel());
  const unsigned long long size =
      ZSTD_getFrameContentSize(packed.const_data_ptr(), length);
  if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN ||
      size > length * kMostRatio)
    refuse_parts(name());
  std::size_t numbers = 1;
  for (const std::int64_t each : layout.sizes)
    numbers *= static_cast<std::size_t>(each);
  if (numbers > size || numbers * like.element_size() != size)
    refuse_parts(name());
  std::vector<std::int64_t> sizes;
  for (const std::int64_t place : layout.order)
    sizes.push_back(layout.sizes[static_cast<std::size_t>(place)]);
  const at::Tensor part = empty_on_host(sizes, like.scalar_type());
  if (ZSTD_decompress(part.data_ptr(), size, packed.const_data_ptr(), length) !=
      size)
    refuse_parts(name());
  return with_places_of(part.to(like.device()), layout);
}

/// Memory for a part; a message may ask for more than there is.
at::Tensor Zstd::empty_on_host(const std::vector<std::int64_t>& sizes,
                               at::ScalarType type) const {
  try {
    return at::empty(sizes, at::TensorOptions(type));
  } catch (const c10::Error&) {
    refuse_parts(name());
  }
}

/// An end of the codec, between its parts and zstd.
class ZstdEnd final : public CodecEnd {
 public:
  ZstdEnd(std::shared_ptr<const Zstd> zstd, std::unique_ptr<CodecEnd> end)
      : zstd_(std::move(zstd)), end_(std::move(end)) {}

  Tensors encode(const at::Tensor& values, const CodedPlace& place) override {
    return zstd_->packed(end_->encode(values, place));
  }
  at::Tensor decode(const Tensors& parts, const CodedPlace& place) override {
    return end_->decode(zstd_->unpacked(parts), place);
  }
  NamedTensors state() const override { return end_->state(); }
  void restore(const NamedTensors& state) override { end_->restore(state); }
  std::int64_t bytes() const override { return end_->bytes(); }

 private:
  std::shared_ptr<const Zstd> zstd_;
  std::unique_ptr<CodecEnd> end_;
};

std::unique_ptr<CodecEnd> Zstd::around(std::unique_ptr<CodecEnd> end) const {
  if (end == nullptr) return nullptr;
  return std::make_unique<ZstdEnd>(shared_from_this(), std::move(end));
}

}  // namespace

std::shared_ptr<const Codec> in_zstd(std::shared_ptr<const Codec> codec,
                                     int level) {
  return std::make_shared<Zstd>(std::move(codec), level);
}

}  // namespace sluice
