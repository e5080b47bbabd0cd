// Activations as differences from those that the same sample had when it came
// last: AQ-SGD, Wang et al. 2022 (arXiv:2206.01299), algorithm 1. Both ends
// keep what a sample's activation was as it was decoded, and both add the
// decoded difference to it, so that what they keep is the same to the bit, and
// the error of a difference is made up for by the next one. As weights settle
// differences become small, and the same number of bits says more.
//
// As published, a sample that comes for the first time is sent as it is. So are
// the samples of evaluations, which are never kept. Differences are rounded to
// the nearest, where the authors' code rounds by chance. `bits` = 32 sends the
// difference of the bits themselves, which is exact.
//
// Codes are in 7ths or 127ths of a row's largest magnitude (layout.h), with
// that as its scale. A row with an infinity or NaN becomes NaN throughout, and
// stays so.
//
// Parts: a byte, for the caller; samples [N] int32, none in evaluations; codes
// of the samples that are known, [known, bytes of codes]; scales [known, rows
// of a sample]; numbers of those that are not, [others, numbers]; and the
// layout. Which samples are known both ends know.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "lib/base/config.h"
#include "lib/base/error.h"
#include "lib/boundaries/codecs/codec.h"
#include "lib/boundaries/codecs/layout.h"
#include "lib/tensors/disk_tensor.h"

namespace sluice {

BoundaryCodecs configure_delta(Fields& options, CodecWays ways);

namespace {

constexpr std::string_view kDelta = "delta";
constexpr std::int64_t kExactBits = 32;  // bits
constexpr std::int64_t kFourBits = 4;
constexpr std::int64_t kEightBits = 8;
constexpr int kHalfShift = 8;  // codes of four bits are written without a sign
constexpr int kHalfCodes = 16;
constexpr std::int64_t kMegabyte = 1 << 20;

enum Part : std::size_t {
  kByte,
  kSamples,
  kDifferences,
  kScales,
  kOthers,
  kLayout,
  kParts = kLayout + 2
};

struct DeltaOptions {
  std::int64_t bits = kFourBits;
  std::int64_t limit_mb = 1024;  // that an end keeps in memory
  std::int64_t disk_mb = 0;      // and on disk
};

/// Numbers of a sample, in rows that have a scale each.
struct SampleRow {
  std::int64_t numbers = 1;
  std::int64_t rows = 1;

  std::int64_t length() const { return rows > 0 ? numbers / rows : 0; }
};

SampleRow numbers_of_sample(const std::vector<std::int64_t>& sizes) {
  const CodedRows rows = coded_rows_of(sizes);
  SampleRow row{1, 1};
  for (std::size_t i = 1; i < sizes.size(); ++i) row.numbers *= sizes[i];
  if (!sizes.empty() && sizes[0] > 0) row.rows = rows.count / sizes[0];
  return row;
}

/// Differences [n, numbers] in few bits.
class Quantiser {
 public:
  Quantiser(std::int64_t bits, const SampleRow& row) : bits_(bits), row_(row) {}

  /// Sizes of the codes of n samples.
  std::vector<std::int64_t> sizes_of_codes(std::int64_t n) const {
    return {n, bits_ == kFourBits ? row_.rows * half() : row_.numbers};
  }
  std::vector<std::int64_t> sizes_of_scales(std::int64_t n) const {
    return {n, bits_ == kExactBits ? 0 : row_.rows};
  }
  at::ScalarType type_of_codes() const {
    if (bits_ == kExactBits) return at::kInt;
    return bits_ == kEightBits ? at::kChar : at::ScalarType::Byte;
  }

  /// Codes and scales.
  std::pair<at::Tensor, at::Tensor> encode(const at::Tensor& now,
                                           const at::Tensor& before) const {
    const std::int64_t n = now.size(0);
    if (bits_ == kExactBits)
      return {now.view(at::kInt).bitwise_xor(before.view(at::kInt)),
              at::empty(sizes_of_scales(n), now.options())};
    const at::Tensor differences =
        (now - before).view({n * row_.rows, row_.length()});
    const at::Tensor scales =
        std::get<0>(differences.abs().max(1, /*keepdim=*/true)) / largest();
    // A row of zeros has 0 / 0.
    const at::Tensor codes = (differences / scales).round().nan_to_num(0, 0, 0);
    return {(bits_ == kEightBits ? codes.to(at::kChar) : in_halves(codes))
                .reshape(sizes_of_codes(n)),
            scales.view(sizes_of_scales(n))};
  }

  at::Tensor decode(const at::Tensor& codes, const at::Tensor& scales,
                    const at::Tensor& before) const {
    const std::int64_t n = codes.size(0);
    if (bits_ == kExactBits)
      return before.view(at::kInt).bitwise_xor(codes).view(at::kFloat);
    const at::Tensor numbers =
        bits_ == kEightBits
            ? codes.view({n * row_.rows, row_.length()}).to(at::kFloat)
            : out_of_halves(codes);
    const at::Tensor differences = numbers * scales.view({n * row_.rows, 1});
    return before + differences.view({n, row_.numbers});
  }

 private:
  double largest() const { return static_cast<double>((1 << (bits_ - 1)) - 1); }
  /// Bytes of a row whose numbers have half a byte each.
  std::int64_t half() const { return (row_.length() + 1) / 2; }

  at::Tensor in_halves(const at::Tensor& codes) const {
    const at::Tensor pairs =
        at::constant_pad_nd(codes.add(kHalfShift).to(at::ScalarType::Byte),
                            {0, 2 * half() - row_.length()}, kHalfShift)
            .view({-1, half(), 2});
    return pairs.select(2, 0) + pairs.select(2, 1) * kHalfCodes;
  }

  at::Tensor out_of_halves(const at::Tensor& codes) const {
    const at::Tensor bytes = codes.view({codes.size(0) * row_.rows, half()});
    return at::stack({bytes.bitwise_and(kHalfCodes - 1),
                      bytes.bitwise_right_shift(kFourBits)},
                     2)
               .view({bytes.size(0), 2 * half()})
               .narrow(1, 0, row_.length())
               .to(at::kFloat) -
           kHalfShift;
  }

  std::int64_t bits_;
  SampleRow row_;
};

/// Samples of a batch, as the sender says them, by whether they are kept.
struct SplitBatch {
  std::vector<std::int64_t> known = {};         ///< samples
  std::vector<std::int64_t> known_places = {};  ///< in the batch
  std::vector<std::int64_t> others = {};
  std::vector<std::int64_t> other_places = {};
};

/// Activations of the samples that have come, as they were decoded.
struct SampleTable {
  at::Tensor rows = {};             ///< [samples, numbers] float32
  std::vector<bool> is_known = {};  ///< by sample
  bool on_disk = false;             ///< the rows lie in a file

  SplitBatch split(const std::vector<std::int64_t>& samples) const {
    SplitBatch split;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const bool known = is_known[static_cast<std::size_t>(samples[i])];
      (known ? split.known : split.others).push_back(samples[i]);
      (known ? split.known_places : split.other_places)
          .push_back(static_cast<std::int64_t>(i));
    }
    return split;
  }
};

std::vector<std::int64_t> numbers_in(const at::Tensor& samples) {
  const at::Tensor host = samples.to(at::kCPU, at::kLong).contiguous();
  const auto* first = host.const_data_ptr<std::int64_t>();
  return {first, first + host.numel()};
}

bool are_different(std::vector<std::int64_t> samples) {
  std::sort(samples.begin(), samples.end());
  return std::adjacent_find(samples.begin(), samples.end()) == samples.end();
}

class Delta final : public Codec, public std::enable_shared_from_this<Delta> {
 public:
  explicit Delta(const DeltaOptions& options) : options_(options) {}

  std::string_view name() const override { return kDelta; }

  bool takes(at::ScalarType) const override { return true; }

  bool wants_samples() const override { return true; }

  Tensors encode(const at::Tensor& values) const override {
    const at::NoGradGuard no_grad;
    const Quantiser quantiser(options_.bits,
                              numbers_of_sample(values.sizes().vec()));
    const std::int64_t rows = values.dim() == 0 ? 1 : values.size(0);
    return parts_of(
        values, at::empty({0}, values.options().dtype(at::kInt)),
        at::empty(quantiser.sizes_of_codes(0),
                  values.options().dtype(quantiser.type_of_codes())),
        at::empty(quantiser.sizes_of_scales(0), values.options()),
        values.contiguous().view(
            {rows, numbers_of_sample(values.sizes().vec()).numbers}));
  }

  at::Tensor decode(const Tensors& parts) const override {
    const at::NoGradGuard no_grad;
    const CodedLayout layout = check(parts, 0, rows_in(parts));
    if (parts[kSamples].numel() > 0) refuse_parts(kDelta);
    return laid_out(parts[kOthers], layout);
  }

  std::unique_ptr<CodecEnd> sender(const CodecSite& site) const override;
  std::unique_ptr<CodecEnd> receiver(const CodecSite& site) const override {
    return sender(site);
  }

  const DeltaOptions& options() const { return options_; }

  static Tensors parts_of(const at::Tensor& values, const at::Tensor& samples,
                          const at::Tensor& codes, const at::Tensor& scales,
                          const at::Tensor& others) {
    Tensors parts = {at::zeros({}, values.options().dtype(at::kByte)), samples,
                     codes, scales, others};
    add_layout(coded_layout_of(values), values.options(), parts);
    return parts;
  }

  /// Number of samples of a message.
  static std::int64_t rows_in(const Tensors& parts) {
    if (parts.size() != kParts) refuse_parts(kDelta);
    return parts[kLayout].dim() == 0 ? 1 : parts[kLayout].size(0);
  }

  /// The layout of a message with so many samples that are known, and others.
  /// Throws LinkError where that can't be.
  CodedLayout check(const Tensors& parts, std::int64_t known,
                    std::int64_t others) const {
    if (parts.size() != kParts ||
        parts[kByte].scalar_type() != at::ScalarType::Byte)
      refuse_parts(kDelta);
    CodedLayout layout = layout_in(parts, kLayout, kDelta);
    const SampleRow row = numbers_of_sample(layout.sizes);
    const Quantiser quantiser(options_.bits, row);
    check_part(parts[kSamples], at::kInt, {parts[kSamples].numel()}, kDelta);
    check_part(parts[kDifferences], quantiser.type_of_codes(),
               quantiser.sizes_of_codes(known), kDelta);
    check_part(parts[kScales], at::kFloat, quantiser.sizes_of_scales(known),
               kDelta);
    check_part(parts[kOthers], at::kFloat, {others, row.numbers}, kDelta);
    return layout;
  }

 private:
  DeltaOptions options_;
};

/// An end of either kind: what a sender keeps is what it would decode.
class DeltaEnd final : public CodecEnd {
 public:
  DeltaEnd(std::shared_ptr<const Delta> codec, const CodecSite& site)
      : codec_(std::move(codec)), site_(site) {
    std::int64_t numbers = 1;
    for (const std::int64_t size : site.features) numbers *= size;
    if (site.samples == 0)
      throw UserError(
          "boundary {}: codec '{}' keeps something of every sample, and "
          "batches that are fed in have no samples with numbers: choose "
          "another codec",
          site.boundary, kDelta);
    if (!fits("", numbers))
      throw UserError(
          "boundary {}: codec '{}' keeps the last activation of each of {} "
          "samples at both ends, {} MB each, and limit_mb = {}, disk_mb = {}: "
          "raise one of them, cut the model where activations are smaller, or "
          "choose another codec",
          site.boundary, kDelta, site.samples,
          (bytes_for(numbers) + kMegabyte - 1) / kMegabyte,
          codec_->options().limit_mb, codec_->options().disk_mb);
  }

  Tensors encode(const at::Tensor& values, const CodedPlace& place) override {
    const at::NoGradGuard no_grad;
    SLUICE_CHECK(place.samples.defined(),
                 "codec {} wants to know which samples '{}' is of", kDelta,
                 place.tensor);
    const std::vector<std::int64_t> samples = numbers_in(place.samples);
    if (values.dim() == 0 || std::ssize(samples) != values.size(0))
      throw UserError(
          "a batch of {} samples has {} rows of features: codec '{}' wants one "
          "for each, choose another",
          samples.size(), values.dim() == 0 ? 1 : values.size(0), kDelta);
    SLUICE_CHECK(are_samples(samples), "samples of a batch of '{}' repeat",
                 place.tensor);
    const SampleRow row = numbers_of_sample(values.sizes().vec());
    SLUICE_CHECK(fits(place.tensor, row.numbers),
                 "'{}' has {} numbers for a sample", place.tensor, row.numbers);
    SampleTable& table = table_for(place.tensor, row.numbers, values.device());
    const SplitBatch split = table.split(samples);
    const at::Tensor rows = values.contiguous().view({-1, row.numbers});
    const auto [codes, scales] =
        Quantiser(codec_->options().bits, row)
            .encode(chosen(rows, split.known_places),
                    kept(table, split.known, values.device()));
    Tensors parts =
        Delta::parts_of(values, place.samples.to(values.device(), at::kInt),
                        codes, scales, chosen(rows, split.other_places));
    take(parts, row, split, table);
    return parts;
  }

  at::Tensor decode(const Tensors& parts, const CodedPlace& place) override {
    const at::NoGradGuard no_grad;
    const std::int64_t rows = Delta::rows_in(parts);
    check_part(parts[kSamples], at::kInt, {parts[kSamples].numel()}, kDelta);
    if (parts[kSamples].numel() == 0) return codec_->decode(parts);
    const std::vector<std::int64_t> samples = numbers_in(parts[kSamples]);
    const std::int64_t numbers =
        parts[kOthers].dim() == 2 ? parts[kOthers].size(1) : std::int64_t{-1};
    if (std::ssize(samples) != rows || !are_samples(samples) || numbers < 0 ||
        !fits(place.tensor, numbers) || !is_like(place.tensor, numbers))
      refuse_parts(kDelta);
    const auto found = tables_.find(place.tensor);
    const SplitBatch split =
        found == tables_.end()
            ? SampleTable{.is_known = std::vector<bool>(
                              static_cast<std::size_t>(site_.samples))}
                  .split(samples)
            : found->second.split(samples);
    const CodedLayout layout =
        codec_->check(parts, std::ssize(split.known), std::ssize(split.others));
    SampleTable& table =
        table_for(place.tensor, numbers, parts[kOthers].device());
    return laid_out(take(parts, numbers_of_sample(layout.sizes), split, table),
                    layout);
  }

  NamedTensors state() const override {
    NamedTensors all;
    for (const auto& [name, table] : tables_) {
      std::vector<std::int64_t> known;
      for (std::size_t i = 0; i < table.is_known.size(); ++i)
        if (table.is_known[i]) known.push_back(static_cast<std::int64_t>(i));
      all.emplace_back(name + kKnown, at::tensor(known, at::kLong));
      all.emplace_back(name + kRows, copy_of(table, known));
    }
    return all;
  }

  void restore(const NamedTensors& state) override {
    tables_ = {};
    std::map<std::string, at::Tensor> saved;
    for (const auto& [name, tensor] : state) saved[name] = tensor;
    for (const auto& [name, known] : saved) {
      if (!name.ends_with(kKnown)) continue;
      const std::string tensor = name.substr(0, name.rfind('.'));
      const auto rows = saved.find(tensor + kRows);
      const std::vector<std::int64_t> samples = numbers_in(known);
      if (rows == saved.end() || rows->second.dim() != 2 ||
          rows->second.size(0) != std::ssize(samples) || !are_samples(samples))
        throw UserError(
            "boundary {}: the checkpoint doesn't hold what codec '{}' keeps of "
            "{} samples",
            site_.boundary, kDelta, site_.samples);
      SampleTable& table =
          table_for(tensor, rows->second.size(1), rows->second.device());
      table.rows.index_copy_(0, known.to(at::kLong), rows->second);
      for (const std::int64_t sample : samples)
        table.is_known[static_cast<std::size_t>(sample)] = true;
    }
  }

  std::int64_t bytes() const override { return taken(false); }

 private:
  static constexpr const char* kKnown = ".samples";
  static constexpr const char* kRows = ".rows";

  /// Rows of a tensor, by their indices on the host.
  static at::Tensor chosen(const at::Tensor& rows,
                           const std::vector<std::int64_t>& indices) {
    return rows.index_select(0,
                             at::tensor(indices, at::kLong).to(rows.device()));
  }

  /// Rows of a table, on the host or on disk as they are there.
  static at::Tensor copy_of(const SampleTable& table,
                            const std::vector<std::int64_t>& samples) {
    if (!table.on_disk) return chosen(table.rows, samples).to(at::kCPU);
    at::Tensor copy = zeros_on_disk(std::ssize(samples), table.rows.size(1));
    at::index_select_out(copy, table.rows, 0, at::tensor(samples, at::kLong));
    return copy;
  }

  std::int64_t bytes_for(std::int64_t numbers) const {
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    constexpr std::int64_t kBytes = 4;
    return numbers > kMost / kBytes / site_.samples
               ? kMost - kMegabyte
               : kBytes * site_.samples * numbers;
  }

  /// Bytes of all tables that lie on disk, or in memory.
  std::int64_t taken(bool on_disk) const {
    std::int64_t bytes = 0;
    for (const auto& [name, table] : tables_)
      if (table.on_disk == on_disk) bytes += bytes_for(table.rows.size(1));
    return bytes;
  }
  bool fits_in_memory(std::int64_t numbers) const {
    const std::int64_t limit = codec_->options().limit_mb * kMegabyte;
    return bytes_for(numbers) <= limit - taken(false);
  }
  /// Whether there is a table of the tensor, or room for one.
  bool fits(const std::string& tensor, std::int64_t numbers) const {
    const std::int64_t limit = codec_->options().disk_mb * kMegabyte;
    return tables_.contains(tensor) || fits_in_memory(numbers) ||
           bytes_for(numbers) <= limit - taken(true);
  }

  bool are_samples(const std::vector<std::int64_t>& samples) const {
    return are_different(samples) &&
           std::all_of(samples.begin(), samples.end(),
                       [&](std::int64_t sample) {
                         return sample >= 0 && sample < site_.samples;
                       });
  }

  /// Whether samples of the tensor had so many numbers before, if any came.
  bool is_like(const std::string& tensor, std::int64_t numbers) const {
    const auto found = tables_.find(tensor);
    return found == tables_.end() || found->second.rows.size(1) == numbers;
  }

  SampleTable& table_for(const std::string& tensor, std::int64_t numbers,
                         const c10::Device& device) {
    const bool has_room = fits_in_memory(numbers);
    SampleTable& table = tables_[tensor];
    if (!table.rows.defined()) {
      table.on_disk = !has_room;
      table.rows =
          table.on_disk
              ? zeros_on_disk(site_.samples, numbers)
              : at::zeros({site_.samples, numbers},
                          at::TensorOptions(at::kFloat).device(device));
      table.is_known.assign(static_cast<std::size_t>(site_.samples), false);
    }
    SLUICE_CHECK(table.rows.size(1) == numbers,
                 "samples of '{}' have {} numbers, and had {}", tensor, numbers,
                 table.rows.size(1));
    if (!table.on_disk) table.rows = table.rows.to(device);
    return table;
  }

  /// What is kept of these samples, on the device of the batch.
  static at::Tensor kept(const SampleTable& table,
                         const std::vector<std::int64_t>& samples,
                         const c10::Device& device) {
    return chosen(table.rows, samples).to(device);
  }

  /// Decodes the rows of a batch, and keeps them.
  at::Tensor take(const Tensors& parts, const SampleRow& row,
                  const SplitBatch& split, SampleTable& table) const {
    const c10::Device device = parts[kOthers].device();
    const at::Tensor known = Quantiser(codec_->options().bits, row)
                                 .decode(parts[kDifferences], parts[kScales],
                                         kept(table, split.known, device));
    const at::Tensor rows = at::empty(
        {std::ssize(split.known) + std::ssize(split.others), row.numbers},
        parts[kOthers].options());
    const auto put = [&](const at::Tensor& from, const at::Tensor& to,
                         const std::vector<std::int64_t>& places) {
      to.index_copy_(0, at::tensor(places, at::kLong).to(to.device()),
                     from.to(to.device()));
    };
    put(known, rows, split.known_places);
    put(parts[kOthers], rows, split.other_places);
    put(known, table.rows, split.known);
    put(parts[kOthers], table.rows, split.others);
    for (const std::int64_t sample : split.others)
      table.is_known[static_cast<std::size_t>(sample)] = true;
    return rows;
  }

  std::shared_ptr<const Delta> codec_;
  CodecSite site_;
  std::map<std::string, SampleTable> tables_;  // by tensor
};

std::unique_ptr<CodecEnd> Delta::sender(const CodecSite& site) const {
  return std::make_unique<DeltaEnd>(shared_from_this(), site);
}

}  // namespace

BoundaryCodecs configure_delta(Fields& options, CodecWays /*ways*/) {
  DeltaOptions read;
  options.key("bits", read.bits,
              {.text = "of each number of a difference: 4, 8, or 32, which is "
                       "exact",
               .unit = "bits",
               .min = kFourBits,
               .max = kExactBits});
  if (read.bits != kFourBits && read.bits != kEightBits &&
      read.bits != kExactBits)
    options.reject("bits", "is 4, 8 or 32");
  options.key(
      "limit_mb", read.limit_mb,
      {.text = "most memory that an end may take for the activations of "
               "all samples, float32; more lies on disk, or is refused",
       .unit = "MB",
       .min = 1,
       .max = 1e6});
  options.key("disk_mb", read.disk_mb,
              {.text = "most that an end may take of the disk for them, in the "
                       "folder TMPDIR, where they don't fit into limit_mb",
               .unit = "MB",
               .min = 0,
               .max = 1e9});
  return {.up = std::make_shared<Delta>(read), .down = nullptr};
}

}  // namespace sluice
