// Activations as places in a book of vectors: Belilovsky et al. 2021
// (arXiv:2106.06401) send and replay them so in decoupled greedy learning. Each
// row (layout.h) is cut into vectors of `dim` numbers, the last one filled up
// with zeros, and each vector becomes the nearest one in the book. The book
// learns by exponential moving averages of how many vectors chose an entry, and
// of their sum (van den Oord et al. 2017, arXiv:1711.00937, appendix A.1):
//
//   count <- decay count + (1 - decay) n,  sum <- decay sum + (1 - decay) s,
//   entry <- sum / count
//
// The first batch gives the first entries, vectors evenly spaced in it. An
// entry whose count falls below a hundredth of the mean begins anew at a vector
// of the batch. Gradients of what came go to what was sent.
//
// Each message carries the book it was written by. So the receiver keeps
// nothing, a message may be lost, or be read again from a replay buffer, which
// holds it encoded. Evaluations, which don't move the book, are sent as they
// are. A batch with an infinity or NaN is NaN throughout where it comes, and
// leaves the book alone.
//
// Parts: a byte, for the caller; places in the book [vectors], in the shortest
// integers that hold them, none in evaluations; the book [size, dim]; numbers
// of an evaluation, else none; and the layout.
#include <algorithm>
#include <array>
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
#include <fmt/format.h>

#include "lib/base/config.h"
#include "lib/base/error.h"
#include "lib/boundaries/codecs/codec.h"
#include "lib/boundaries/codecs/layout.h"
#include "lib/tensors/precision.h"

namespace sluice {

BoundaryCodecs configure_codebook(Fields& options, CodecWays ways);

namespace {

constexpr std::string_view kCodebook = "codebook";
constexpr std::int64_t kByteEntries = 256;  // that a byte tells apart
constexpr double kLeastUse = 0.01;          // of the mean count

/// Parts of a message.
struct BookPart {
  static constexpr std::size_t kByte = 0;
  static constexpr std::size_t kPlaces = 1;
  static constexpr std::size_t kBook = 2;
  static constexpr std::size_t kOthers = 3;
  static constexpr std::size_t kLayout = 4;
  static constexpr std::size_t kCount = kLayout + 2;
};

struct CodebookOptions {
  std::int64_t size = kByteEntries;
  std::int64_t dim = 8;
  double decay = 0.99;

  at::ScalarType type_of_places() const {
    return size <= kByteEntries ? at::ScalarType::Byte : at::ScalarType::Short;
  }
};

/// Vectors of a tensor.
struct BookVectors {
  CodedRows rows = {};
  std::int64_t in_row = 0;

  std::int64_t count() const { return rows.count * in_row; }
};

BookVectors vectors_of(at::IntArrayRef sizes, std::int64_t dim) {
  BookVectors vectors{.rows = coded_rows_of(sizes)};
  const std::int64_t length = vectors.rows.length;
  vectors.in_row = length / dim + (length % dim == 0 ? 0 : 1);
  return vectors;
}

/// The nearest entry of the book for each vector, of equal ones the first.
at::Tensor nearest(const at::Tensor& vectors, const at::Tensor& book) {
  constexpr std::int64_t kDistances = 1 << 22;  // of maps there are many
  const std::int64_t at_once =
      std::max<std::int64_t>(1, kDistances / book.size(0));
  const at::Tensor lengths = book.square().sum(1);
  std::vector<at::Tensor> places;
  for (const at::Tensor& some : vectors.split(at_once))
    places.push_back((lengths - 2 * some.matmul(book.t())).argmin(1));
  return at::cat(places);
}

class Codebook final : public Codec,
                       public std::enable_shared_from_this<Codebook> {
 public:
  explicit Codebook(const CodebookOptions& options) : options_(options) {}

  std::string_view name() const override { return kCodebook; }

  bool takes(at::ScalarType) const override { return true; }

  Tensors encode(const at::Tensor& values) const override {
    const at::NoGradGuard no_grad;
    return parts_of(
        values,
        at::empty({0}, values.options().dtype(options_.type_of_places())),
        at::empty({0, options_.dim}, values.options()),
        values.contiguous().view({-1}));
  }

  at::Tensor decode(const Tensors& parts) const override {
    const at::NoGradGuard no_grad;
    const CodedLayout layout = check(parts);
    const at::Tensor& places = parts[BookPart::kPlaces];
    if (places.numel() == 0) return laid_out(parts[BookPart::kOthers], layout);
    const BookVectors vectors = vectors_of(layout.sizes, options_.dim);
    const at::Tensor rows = parts[BookPart::kBook]
                                .index_select(0, places.to(at::kInt))
                                .view({vectors.rows.count, -1})
                                .narrow(1, 0, vectors.rows.length);
    return laid_out(rows, layout);
  }

  std::unique_ptr<CodecEnd> sender(const CodecSite& site) const override;

  const CodebookOptions& options() const { return options_; }

  static Tensors parts_of(const at::Tensor& values, const at::Tensor& places,
                          const at::Tensor& book, const at::Tensor& others) {
    Tensors parts = {at::zeros({}, values.options().dtype(at::kByte)), places,
                     book, others};
    add_layout(coded_layout_of(values), values.options(), parts);
    return parts;
  }

 private:
  /// Throws LinkError.
  CodedLayout check(const Tensors& parts) const {
    if (parts.size() != BookPart::kCount ||
        parts[BookPart::kByte].scalar_type() != at::ScalarType::Byte)
      refuse_parts(kCodebook);
    CodedLayout layout = layout_in(parts, BookPart::kLayout, kCodebook);
    const at::Tensor& places = parts[BookPart::kPlaces];
    const std::int64_t numbers = parts[BookPart::kLayout].numel();
    const bool is_coded = places.numel() > 0;
    const std::int64_t vectors =
        numbers > 0 ? vectors_of(layout.sizes, options_.dim).count() : 0;
    check_part(places, options_.type_of_places(), {is_coded ? vectors : 0},
               kCodebook);
    check_part(parts[BookPart::kBook], at::kFloat,
               {is_coded ? options_.size : 0, options_.dim}, kCodebook);
    check_part(parts[BookPart::kOthers], at::kFloat, {is_coded ? 0 : numbers},
               kCodebook);
    if (is_coded && !are_places(places)) refuse_parts(kCodebook);
    return layout;
  }

  /// Whether all lie in the book.
  bool are_places(const at::Tensor& places) const {
    if (options_.size == kByteEntries) return true;  // any byte does
    const at::Tensor numbers = places.to(at::kInt);
    return (numbers.ge(0) & numbers.lt(options_.size)).all().item<bool>();
  }

  CodebookOptions options_;
};

/// What a book has learned of a tensor.
struct LearnedBook {
  at::Tensor entries;  ///< [size, dim]
  at::Tensor counts;   ///< [size]
  at::Tensor sums;     ///< [size, dim]
};

/// The tensors of a book, by the names that they have in checkpoints.
template <class Book>
auto tensors_of(Book& book) {
  return std::array{std::pair{"entries", &book.entries},
                    std::pair{"counts", &book.counts},
                    std::pair{"sums", &book.sums}};
}

class CodebookSender final : public CodecEnd {
 public:
  explicit CodebookSender(std::shared_ptr<const Codebook> codec)
      : codec_(std::move(codec)) {}

  Tensors encode(const at::Tensor& values, const CodedPlace& place) override {
    const at::NoGradGuard no_grad;
    const FullPrecisionScope full;  // the nearest entry, in a bf16 run as well
    if (values.numel() == 0) return codec_->encode(values);
    const CodebookOptions& options = codec_->options();
    const at::Tensor vectors = in_vectors(values);
    LearnedBook& book = books_[place.tensor];
    const bool is_first = !book.entries.defined();
    if (is_first) {
      book = first_book(vectors);
    } else if (book.entries.device() != values.device()) {
      move(book, values.device());
    }
    const at::Tensor places = nearest(vectors, book.entries);
    const at::Tensor is_finite = vectors.isfinite().all();
    const at::Tensor sent =
        at::where(is_finite, book.entries,
                  at::full({}, std::numeric_limits<float>::quiet_NaN(),
                           book.entries.options()));
    learn(vectors, places, is_finite, book);
    if (is_first && !is_finite.item<bool>()) books_.erase(place.tensor);
    return Codebook::parts_of(values, places.to(options.type_of_places()), sent,
                              at::empty({0}, values.options()));
  }

  at::Tensor decode(const Tensors& parts,
                    const CodedPlace& /*place*/) override {
    return codec_->decode(parts);
  }

  NamedTensors state() const override {
    NamedTensors all;
    for (const auto& [name, book] : books_)
      for (const auto& [what, tensor] : tensors_of(book))
        all.emplace_back(
            fmt::format("{}.{}", name, what),
            tensor->to(at::kCPU, /*non_blocking=*/false, /*copy=*/true));
    return all;
  }

  void restore(const NamedTensors& state) override {
    const CodebookOptions& options = codec_->options();
    books_ = {};
    for (const auto& [name, tensor] : state) {
      LearnedBook& book = books_[name.substr(0, name.rfind('.'))];
      for (const auto& [what, own] : tensors_of(book)) {
        if (!name.ends_with(fmt::format(".{}", what))) continue;
        *own = tensor.clone();
        if (tensor.dim() == 0 || tensor.size(0) != options.size ||
            (tensor.dim() == 2 && tensor.size(1) != options.dim))
          throw UserError(
              "the checkpoint's '{}' is no book of {} entries of {} numbers, "
              "as codec '{}' keeps it",
              name, options.size, options.dim, kCodebook);
      }
    }
  }

  std::int64_t bytes() const override {
    std::int64_t bytes = 0;
    for (const auto& [name, book] : books_)
      for (const auto& [what, tensor] : tensors_of(book))
        bytes += static_cast<std::int64_t>(tensor->nbytes());
    return bytes;
  }

 private:
  static void move(LearnedBook& book, const c10::Device& device) {
    for (const auto& [what, tensor] : tensors_of(book))
      *tensor = tensor->to(device);
  }

  /// [vectors, dim]
  at::Tensor in_vectors(const at::Tensor& values) const {
    const std::int64_t dim = codec_->options().dim;
    const BookVectors vectors = vectors_of(values.sizes(), dim);
    return at::constant_pad_nd(
               values.contiguous().view({-1, vectors.rows.length}),
               {0, vectors.in_row * dim - vectors.rows.length})
        .view({-1, dim});
  }

  /// As many vectors as the book has entries, evenly spaced.
  at::Tensor spaced(const at::Tensor& vectors) const {
    const std::int64_t size = codec_->options().size;
    const at::Tensor places =
        at::arange(size, vectors.options().dtype(at::kLong))
            .mul(vectors.size(0))
            .floor_divide(size);
    return vectors.index_select(0, places).nan_to_num();
  }

  LearnedBook first_book(const at::Tensor& vectors) const {
    const std::int64_t size = codec_->options().size;
    const at::Tensor entries = spaced(vectors);
    const at::Tensor counts = at::full(
        {size},
        static_cast<double>(vectors.size(0)) / static_cast<double>(size),
        vectors.options());
    return {entries, counts, entries * counts.unsqueeze(1)};
  }

  void learn(const at::Tensor& vectors, const at::Tensor& places,
             const at::Tensor& is_finite, LearnedBook& book) const {
    const CodebookOptions& options = codec_->options();
    const at::Tensor chosen =
        at::zeros_like(book.counts)
            .index_add(0, places, at::ones_like(vectors.select(1, 0)));
    const at::Tensor sum =
        at::zeros_like(book.sums).index_add(0, places, vectors);
    at::Tensor counts =
        book.counts * options.decay + chosen * (1 - options.decay);
    at::Tensor sums = book.sums * options.decay + sum * (1 - options.decay);
    const at::Tensor mean = counts.mean();
    const at::Tensor is_unused = counts.lt(mean * kLeastUse);
    counts = at::where(is_unused, mean, counts);
    sums = at::where(is_unused.unsqueeze(1), spaced(vectors) * mean, sums);
    book.counts = at::where(is_finite, counts, book.counts);
    book.sums = at::where(is_finite, sums, book.sums);
    book.entries = book.sums / book.counts.unsqueeze(1);
  }

  std::shared_ptr<const Codebook> codec_;
  std::map<std::string, LearnedBook> books_;  // by tensor
};

std::unique_ptr<CodecEnd> Codebook::sender(const CodecSite&) const {
  return std::make_unique<CodebookSender>(shared_from_this());
}

}  // namespace

BoundaryCodecs configure_codebook(Fields& options, CodecWays /*ways*/) {
  CodebookOptions read;
  options.key("size", read.size,
              {.text = "vectors in the book, which goes with each message: 4 "
                       "bytes for each of their numbers",
               .min = 2,
               .max = 32768});
  options.key(
      "dim", read.dim,
      {.text = "numbers of a vector, for which a message has 1 byte, or "
               "2 from size = 257 on",
       .min = 1,
       .max = 65536});
  options.key(
      "decay", read.decay,
      {.text = "of the moving averages that the book is, for each batch",
       .min = 0,
       .max = 0.9999});
  return {.up = std::make_shared<Codebook>(read), .down = nullptr};
}

}  // namespace sluice
