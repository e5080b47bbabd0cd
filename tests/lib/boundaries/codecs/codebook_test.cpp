#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/config.h"
#include "lib/base/error.h"
#include "lib/base/table.h"
#include "lib/boundaries/codecs/codec.h"
#include "lib/boundaries/codecs/coded.h"
#include "lib/tensors/pack.h"

namespace sluice::codebook_test {

using Sizes = std::vector<std::int64_t>;

std::shared_ptr<const Codec> codebook(std::int64_t size, std::int64_t dim,
                                      double decay = 0.99) {
  ConfigNode options{.value = ConfigNode::Table{}};
  options.set("size", {.value = size});
  options.set("dim", {.value = dim});
  options.set("decay", {.value = decay});
  Fields fields(&options, "boundary.codec.up");
  return find_row(codecs(), "codebook", "codec")
      .make.configure(fields, {.up = true, .down = false})
      .up;
}

at::Tensor numbers(const Sizes& sizes, std::uint64_t seed = 1) {
  return at::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(seed));
}

/// A sender, and the messages that it makes.
struct Sender {
  explicit Sender(std::shared_ptr<const Codec> of)
      : codec(std::move(of)), end(codec->sender({})) {}

  Message message(const at::Tensor& values) const {
    Message message;
    pack({values}, "h", {codec.get(), end.get(), 0, {}}, message);
    return message;
  }
  at::Tensor received(const Message& message) const {
    return unpack(message, "h", codec.get()).at(0);
  }
  at::Tensor send(const at::Tensor& values) const {
    return received(message(values));
  }
  NamedTensors state() const { return end->state(); }
  at::Tensor state(const std::string& name) const {
    for (const auto& [own, tensor] : end->state())
      if (own == name) return tensor;
    return {};
  }

  std::shared_ptr<const Codec> codec;
  std::unique_ptr<CodecEnd> end;
};

TEST(Codebook, NoMoreVectorsThanEntriesComeUnchangedTheFirstTime) {
  const at::Tensor values = numbers({4, 24});
  EXPECT_TRUE(Sender(codebook(12, 8)).send(values).equal(values));
  EXPECT_FALSE(Sender(codebook(11, 8)).send(values).equal(values));
}

TEST(Codebook, SendsAPlaceForEachVectorAndTheBook) {
  constexpr std::size_t kShape = 3;
  const auto bytes_of = [](std::int64_t size, std::int64_t dim,
                           const Sizes& sizes) {
    return payload_bytes(Sender(codebook(size, dim)).message(numbers(sizes)));
  };
  EXPECT_EQ(bytes_of(256, 8, {32, 64}), 32U * 8 + 256 * 8 * 4 + kShape);
  EXPECT_EQ(bytes_of(64, 4, {32, 10, 18}), 32U * 10 * 5 + 64 * 4 * 4 + kShape);
  EXPECT_EQ(bytes_of(257, 8, {32, 4, 6, 6}),
            32U * 18 * 2 + 257 * 8 * 4 + kShape);
}

/// The book after these batches, computed number by number.
std::vector<std::vector<double>> plain_book(
    std::vector<std::vector<double>> book, double first_count,
    const std::vector<at::Tensor>& batches, double decay) {
  std::vector<double> counts(book.size(), first_count);
  std::vector<std::vector<double>> sums = book;
  for (auto& entry : sums)
    for (double& number : entry) number *= first_count;
  for (const at::Tensor& batch : batches) {
    std::vector<double> chosen(book.size());
    std::vector<std::vector<double>> sum(book.size(),
                                         std::vector<double>(book[0].size()));
    for (std::int64_t v = 0; v < batch.size(0); ++v) {
      std::size_t best = 0;
      double least = std::numeric_limits<double>::infinity();
      for (std::size_t e = 0; e < book.size(); ++e) {
        double distance = 0;
        for (std::size_t d = 0; d < book[e].size(); ++d) {
          const double x =
              batch[v][static_cast<std::int64_t>(d)].item<double>() -
              book[e][d];
          distance += x * x;
        }
        if (distance < least) {
          least = distance;
          best = e;
        }
      }
      chosen[best] += 1;
      for (std::size_t d = 0; d < book[best].size(); ++d)
        sum[best][d] += batch[v][static_cast<std::int64_t>(d)].item<double>();
    }
    for (std::size_t e = 0; e < book.size(); ++e) {
      counts[e] = decay * counts[e] + (1 - decay) * chosen[e];
      for (std::size_t d = 0; d < book[e].size(); ++d) {
        sums[e][d] = decay * sums[e][d] + (1 - decay) * sum[e][d];
        book[e][d] = sums[e][d] / counts[e];
      }
    }
  }
  return book;
}

TEST(Codebook, LearnsByMovingAverages) {
  constexpr double kDecay = 0.8;
  const Sender sender(codebook(3, 2, kDecay));
  std::vector<at::Tensor> batches;
  for (std::uint64_t i = 0; i < 6; ++i) {
    batches.push_back(numbers({12, 2}, i + 1) + 0.2 * static_cast<double>(i));
    sender.send(batches.back());
  }
  std::vector<std::vector<double>> first;
  for (const std::int64_t place : {0, 4, 8})
    first.push_back({batches[0][place][0].item<double>(),
                     batches[0][place][1].item<double>()});
  const auto book = plain_book(first, 4, batches, kDecay);
  const at::Tensor learned = sender.state("h.0.entries");
  for (std::int64_t e = 0; e < 3; ++e)
    for (std::int64_t d = 0; d < 2; ++d)
      EXPECT_NEAR(
          learned[e][d].item<double>(),
          book[static_cast<std::size_t>(e)][static_cast<std::size_t>(d)], 1e-5);
}

TEST(Codebook, EachVectorBecomesTheNearestEntry) {
  const Sender sender(codebook(16, 4));
  sender.send(numbers({64, 8}));
  const at::Tensor book = sender.state("h.0.entries");
  const at::Tensor values = numbers({10, 8}, 2);
  const at::Tensor came = sender.send(values);
  const at::Tensor distances = at::cdist(values.view({-1, 4}), book);
  EXPECT_TRUE((came - values)
                  .view({-1, 4})
                  .norm(2, 1)
                  .allclose(std::get<0>(distances.min(1)), 1e-4, 1e-5));
}

TEST(Codebook, TheErrorFallsAsItLearns) {
  const Sender sender(codebook(16, 2, 0.5));
  const auto error = [&](std::uint64_t seed) {
    const at::Tensor values = numbers({256, 8}, seed);
    return (sender.send(values) - values).norm().item<double>();
  };
  const double first = error(1);
  for (std::uint64_t seed = 2; seed < 20; ++seed) error(seed);
  EXPECT_LT(error(20), 0.9 * first);
}

TEST(Codebook, EntriesThatAreNeverChosenBeginAnew) {
  const Sender sender(codebook(4, 2, 0.5));
  sender.send(at::tensor({0.F, 0.F, 1.F, 1.F, 100.F, 100.F, 101.F, 101.F})
                  .view({4, 2}));
  const at::Tensor near = numbers({40, 2});
  for (int i = 0; i < 20; ++i) sender.send(near);
  EXPECT_LT(sender.state("h.0.entries").abs().max().item<double>(), 10);
}

TEST(Codebook, AMessageIsReadWithoutThoseBeforeIt) {
  const Sender sender(codebook(16, 4));
  std::vector<Message> messages;
  std::vector<at::Tensor> came;
  for (std::uint64_t i = 0; i < 4; ++i) {
    messages.push_back(sender.message(numbers({64, 8}, i)));
    came.push_back(sender.received(messages.back()));
  }
  for (const std::size_t i : {3U, 1U, 2U, 1U, 0U})
    EXPECT_TRUE(sender.received(messages[i]).equal(came[i]));
}

TEST(Codebook, EvaluationsAreSentAsTheyAreAndLeaveTheBookAlone) {
  const Sender sender(codebook(16, 4));
  sender.send(numbers({64, 8}));
  const at::Tensor before = sender.state("h.0.entries");
  const at::Tensor values = numbers({64, 8}, 3);
  EXPECT_TRUE(as_received({values}, sender.codec.get()).at(0).equal(values));
  EXPECT_TRUE(sender.state("h.0.entries").equal(before));
}

TEST(Codebook, AnInfinityMakesTheBatchNaNAndLeavesTheBookAlone) {
  const Sender sender(codebook(16, 4));
  sender.send(numbers({64, 8}));
  const at::Tensor before = sender.state("h.0.entries");
  for (const float number : {std::numeric_limits<float>::infinity(),
                             std::numeric_limits<float>::quiet_NaN()}) {
    at::Tensor values = numbers({64, 8}, 3);
    values[5][2] = number;
    EXPECT_TRUE(sender.send(values).isnan().all().item<bool>());
    EXPECT_TRUE(sender.state("h.0.entries").allclose(before, 1e-6, 0));
  }
}

TEST(Codebook, BeginsWithTheFirstBatchThatIsFinite) {
  const Sender sender(codebook(16, 4));
  at::Tensor values = numbers({64, 8}, 3);
  values[5][2] = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(sender.send(values).isnan().all().item<bool>());
  const at::Tensor came = sender.send(numbers({64, 8}));
  EXPECT_TRUE(came.equal(Sender(codebook(16, 4)).send(numbers({64, 8}))));
}

// 16 bits have no 32768.
TEST(Codebook, HasAsManyVectorsAsItsPlacesTellApart) {
  const at::Tensor values = numbers({16, 8});
  const at::Tensor came = Sender(codebook(32768, 2)).send(values);
  EXPECT_TRUE(came.equal(values)) << "each vector has entries of its own";
}

TEST(Codebook, KeepsTheLayoutOfMaps) {
  const at::Tensor maps =
      numbers({2, 8, 3, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor came = Sender(codebook(60, 4)).send(maps);
  EXPECT_EQ(came.strides(), maps.strides());
  EXPECT_TRUE(came.equal(maps)) << "60 vectors";
}

TEST(Codebook, RestoredItGoesOnToTheBit) {
  const Sender one(codebook(16, 4));
  for (std::uint64_t i = 0; i < 5; ++i) one.send(numbers({64, 8}, i));
  const Sender other(codebook(16, 4));
  other.end->restore(one.state());
  for (std::uint64_t i = 5; i < 8; ++i) {
    const at::Tensor values = numbers({64, 8}, i);
    EXPECT_TRUE(one.send(values).equal(other.send(values)));
  }
}

TEST(Codebook, RefusesTheBookOfAnotherSize) {
  const Sender one(codebook(16, 4));
  one.send(numbers({64, 8}));
  EXPECT_THROW(Sender(codebook(8, 4)).end->restore(one.state()), UserError);
  EXPECT_THROW(Sender(codebook(16, 2)).end->restore(one.state()), UserError);
}

TEST(Codebook, RefusesPlacesThatAreNotInTheBook) {
  const Sender sender(codebook(16, 4));
  const Message message = sender.message(numbers({64, 8}));
  Tensors parts = unpack(message, "h.0");
  const auto decode = [&](std::int64_t place) {
    parts[1] = at::full_like(parts[1], place);
    return sender.codec->decode(parts);
  };
  EXPECT_EQ(decode(15).size(0), 64);
  EXPECT_THROW(decode(16), LinkError);
}

}  // namespace sluice::codebook_test
