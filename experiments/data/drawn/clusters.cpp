#include "experiments/data/drawn/clusters.h"

#include <cmath>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>

#include "experiments/data/drawn/nearly_normal.h"
#include "experiments/data/samples/samples.h"
#include "experiments/data/samples/validation.h"
#include "lib/base/random.h"

namespace sluice {
namespace {

struct ClusterOptions {
  std::int64_t classes = 4;
  std::int64_t clusters = 8;
  std::int64_t size = 512;
  double deviation = 0.5;
  std::int64_t train = 128'000;
  std::int64_t test = 10'000;
  std::int64_t seed = 0;

  void describe(Fields& fields) {
    fields.key("classes", classes,
               {.text = "classes of the labels", .min = 1, .max = 10'000});
    fields.key("clusters", clusters,
               {.text = "clusters of each class", .min = 1, .max = 10'000});
    fields.key("size", size,
               {.text = "numbers of a sample", .min = 1, .max = 100'000});
    fields.key("deviation", deviation,
               {.text = "standard deviation of each number around that of the "
                        "cluster's centre, which is at a distance of 1 from 0",
                .min = 0,
                .max = 1e6});
    fields.key("train", train,
               {.text = "number of training samples", .min = 1, .max = 1e9});
    fields.key("test", test,
               {.text = "number of test samples", .min = 1, .max = 1e9});
    fields.key("seed", seed,
               {.text = "which centres and samples are drawn", .min = 0});
    constexpr std::int64_t kMost = 100'000'000;
    if (all_clusters() > kMost / size)
      fields.reject("clusters",
                    "the centres of all classes have more than 10^8 numbers: "
                    "set fewer clusters, or a smaller size");
  }

  std::int64_t all_clusters() const { return classes * clusters; }
  std::uint64_t key(std::string_view of, std::int64_t index) const {
    return random_key({key_part("clusters"), key_part(of),
                       static_cast<std::uint64_t>(seed),
                       static_cast<std::uint64_t>(index)});
  }
};

/// Centres of all clusters, one after the other.
using Centres = std::vector<double>;

Centres centres_of(const ClusterOptions& options) {
  Centres all;
  for (std::int64_t cluster = 0; cluster < options.all_clusters(); ++cluster) {
    KeyedRandom random(options.key("centre", cluster));
    std::vector<double> centre;
    double squares = 0;
    for (std::int64_t i = 0; i < options.size; ++i) {
      centre.push_back(nearly_normal(random.next()));
      squares += centre.back() * centre.back();
    }
    if (squares == 0) centre[0] = squares = 1;
    for (const double value : centre) all.push_back(value / std::sqrt(squares));
  }
  return all;
}

class ClusterSamples final : public Samples {
 public:
  ClusterSamples(const ClusterOptions& options, std::string split,
                 std::int64_t size, std::shared_ptr<const Centres> centres)
      : options_(options),
        split_(std::move(split)),
        size_(size),
        centres_(std::move(centres)) {}

  std::int64_t size() const override { return size_; }
  std::int64_t position(std::int64_t index, EpochKey /*key*/) const override {
    return index;
  }

  /// Clusters take turns, so that all have as many samples.
  Batch batch(std::span<const std::int64_t> indices,
              EpochKey /*key*/) const override {
    Batch batch;
    batch.inputs = at::empty({std::ssize(indices), options_.size}, at::kFloat);
    batch.labels = at::empty({std::ssize(indices)}, at::kLong);
    auto* input = batch.inputs.mutable_data_ptr<float>();
    auto* label = batch.labels.mutable_data_ptr<std::int64_t>();
    for (const std::int64_t index : indices) {
      KeyedRandom random(options_.key(split_, index));
      const std::int64_t cluster = index % options_.all_clusters();
      *label++ = cluster / options_.clusters;
      const double* centre = centres_->data() + cluster * options_.size;
      for (std::int64_t i = 0; i < options_.size; ++i)
        *input++ = static_cast<float>(
            *centre++ + options_.deviation * nearly_normal(random.next()));
    }
    return batch;
  }

 private:
  ClusterOptions options_;
  std::string split_;
  std::int64_t size_;
  std::shared_ptr<const Centres> centres_;
};

/// Both splits have the centres of one, made when either is wanted first.
class SharedCentres {
 public:
  explicit SharedCentres(const ClusterOptions& options) : options_(options) {}
  std::shared_ptr<const Centres> get() {
    std::call_once(made_, [this] {
      centres_ = std::make_shared<const Centres>(centres_of(options_));
    });
    return centres_;
  }

 private:
  const ClusterOptions options_;
  std::once_flag made_;
  std::shared_ptr<const Centres> centres_;
};

Split split_of(const ClusterOptions& options, const std::string& name,
               std::int64_t size,
               const std::shared_ptr<SharedCentres>& centres) {
  return {size, [=] {
            return std::make_shared<const ClusterSamples>(options, name, size,
                                                          centres->get());
          }};
}

}  // namespace

MakeDataSet configure_clusters(Fields& fields) {
  ClusterOptions options;
  options.describe(fields);
  const ValidationOptions validation = read_validation(fields);
  return [options, validation](const std::string&) {
    DataSet data;
    data.sample = {.shape = {options.size}, .classes = options.classes};
    const auto centres = std::make_shared<SharedCentres>(options);
    data.train = split_of(options, "train", options.train, centres);
    data.test = split_of(options, "test", options.test, centres);
    return with_validation(std::move(data), validation);
  };
}

}  // namespace sluice
