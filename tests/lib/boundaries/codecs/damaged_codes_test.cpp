// Messages of every codec, damaged by chance: a receiver refuses them or
// decodes something, and nothing worse.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/base/random.h"
#include "lib/boundaries/codecs/codec.h"
#include "lib/boundaries/codecs/coded.h"
#include "lib/boundaries/codecs/zstd.h"
#include "lib/tensors/pack.h"

namespace sluice::damaged_codes_test {

using Sizes = std::vector<std::int64_t>;

const CodecSite kSite = {.features = {6}, .samples = 12};

class Damage {
 public:
  explicit Damage(std::uint64_t seed) : random_(seed) {}

  /// Changes a part of the message, its type, sizes, strides or numbers.
  void change(Tensors& parts) {
    const auto which = static_cast<std::size_t>(below(std::ssize(parts)));
    at::Tensor& part = parts[which];
    switch (below(6)) {
      case 0:
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(which));
        break;
      case 1:
        part = part.to(type());
        break;
      case 2:
        part = at::zeros(sizes(), part.options());
        break;
      case 3:
        part = at::zeros({}, part.options()).expand(sizes());
        break;
      case 4:
        std::swap(part,
                  parts[static_cast<std::size_t>(below(std::ssize(parts)))]);
        break;
      default:
        part = part.clone();
        if (part.numel() > 0)
          part.view({-1})[below(part.numel())].fill_(
              part.is_signed() ? below(128) - 64 : below(128));
    }
  }

  std::int64_t below(std::int64_t end) {
    return static_cast<std::int64_t>(
        random_.below(static_cast<std::uint64_t>(end)));
  }

 private:
  at::ScalarType type() {
    constexpr at::ScalarType kTypes[] = {at::kFloat, at::kByte, at::kChar,
                                         at::kInt,   at::kLong, at::kShort};
    return kTypes[below(std::ssize(kTypes))];
  }
  Sizes sizes() {
    Sizes all(static_cast<std::size_t>(below(5)));
    for (std::int64_t& size : all) size = below(8);
    return all;
  }

  KeyedRandom random_;
};

struct Counts {
  int refused = 0;
  int taken = 0;
};

/// A message of a tensor that a codec has made these parts of.
Message message_of(const Tensors& parts) {
  Message message;
  pack(parts, "h.0", message);
  message.tensors.push_back(view_of(at::empty({0}), "h.0.like"));
  return message;
}

/// Decodes damaged messages of the codec, each after a sound one.
Counts damaged(const std::shared_ptr<const Codec>& codec, int messages) {
  Counts counts;
  for (int i = 0; i < messages; ++i) {
    Damage damage(static_cast<std::uint64_t>(i));
    const auto sender = codec->sender(kSite);
    const auto receiver = codec->receiver(kSite);
    const Coding taking{codec.get(), receiver.get(), 0, {}};
    const at::Tensor values =
        at::randn(i % 2 == 0 ? Sizes{4, 6} : Sizes{4, 2, 3, 24}).relu();
    Tensors parts;
    for (std::int64_t visit = 0; visit < 2; ++visit) {
      Message message;
      pack({values}, "h",
           {codec.get(), sender.get(), 0, at::arange(2 * visit, 4 + 2 * visit)},
           message);
      parts = unpack(message, "h.0");
      if (visit == 0) unpack(message, "h", taking);
    }
    for (std::int64_t more = damage.below(2); more >= 0; --more)
      if (!parts.empty()) damage.change(parts);
    try {
      unpack(message_of(parts), "h", taking);
      ++counts.taken;
    } catch (const LinkError&) {
      ++counts.refused;
    }
  }
  return counts;
}

void expect_refused_or_decoded(const std::shared_ptr<const Codec>& codec,
                               const std::string& what) {
  constexpr int kMessages = 600;
  const Counts counts = damaged(codec, kMessages);
  EXPECT_EQ(counts.refused + counts.taken, kMessages) << what;
  EXPECT_GT(counts.refused, kMessages / 10) << what;
  EXPECT_GT(counts.taken, 0) << what;
}

TEST(DamagedCodes, AreRefusedOrDecoded) {
  at::manual_seed(1);
  for (const CodecRow& row : codecs()) {
    if (row.make() == nullptr) continue;  // the layers' outputs as they are
    expect_refused_or_decoded(row.make(), std::string(row.name));
  }
}

TEST(DamagedCodes, InZstdAreRefusedOrDecoded) {
  at::manual_seed(1);
  for (const CodecRow& row : codecs())
    if (const std::shared_ptr<const Codec> codec = row.make())
      expect_refused_or_decoded(in_zstd(codec, 1), std::string(row.name));
}

}  // namespace sluice::damaged_codes_test
