// PowerSGD: Vogels, Karimireddy and Jaggi 2019 (arXiv:1905.13727), algorithms 1
// and 2. A gradient, seen as a matrix [n, m], becomes P Q': P [n, r] is an
// orthogonal basis of what the sum of all replicas makes of Q, Q [m, r] the sum
// in that basis, with which the next exchange begins. Two plain sums, so any
// group does. Tensors of one dimension, and matrices that would not become
// smaller, are summed as they are. What is missing of the mean each replica
// adds to its next gradient.
#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "lib/base/random.h"
#include "lib/replicas/compressor.h"
#include "lib/replicas/compressors/line_compressor.h"

namespace sluice {

CompressorKind compress_power_sgd(Fields& fields);

namespace {

/// Rows and columns of a gradient as a matrix: its first dimension, and the
/// product of all others.
struct MatrixShape {
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::int64_t rank = 0;  ///< 0: it is summed as it is
};

MatrixShape matrix_of(at::IntArrayRef sizes, std::int64_t rank) {
  MatrixShape shape;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    (i == 0 ? shape.rows : shape.columns) *= sizes[i];
  const std::int64_t most = std::min({rank, shape.rows, shape.columns});
  const bool is_smaller =
      sizes.size() > 1 && most > 0 &&
      most * (shape.rows + shape.columns) < shape.rows * shape.columns;
  if (is_smaller) shape.rank = most;
  return shape;
}

/// An orthonormal basis that has the columns in it, whatever their rank.
at::Tensor basis_of(const at::Tensor& columns) {
  return std::get<0>(at::linalg_qr(columns.to(at::kDouble), "reduced"))
      .to(at::kFloat);
}

/// First matrix Q, equal in all replicas and for any cut.
at::Tensor first_query(const std::string& name, const MatrixShape& shape,
                       std::uint64_t seed, const at::Tensor& like) {
  KeyedRandom random(random_key({seed, key_part("power_sgd"), key_part(name)}));
  const at::Tensor query = at::empty({shape.columns, shape.rank}, at::kFloat);
  for (float& value : line_elements(query))
    value = static_cast<float>(random.normal());
  return query.to(like.device());
}

/// Sets columns that are 0 to what they were at first: else they would be 0 for
/// ever, where a gradient was 0 in one update and its first rows are.
at::Tensor without_zero_columns(const at::Tensor& query,
                                const at::Tensor& first) {
  const at::Tensor is_zero = query.abs().amax(0, /*keepdim=*/true).eq(0);
  return at::where(is_zero, first, query);
}

/// What PowerSGD keeps of a tensor, and holds while it is exchanged.
struct LowRank {
  MatrixShape shape = {};
  at::Tensor first = {};     ///< Q of the first update
  at::Tensor query = {};     ///< Q
  at::Tensor residual = {};  ///< [rows, columns]; undefined: none is kept
  at::Tensor matrix = {};    ///< gradient and residual
  at::Tensor basis = {};     ///< P
};

class PowerSgd final : public GradientExchange {
 public:
  PowerSgd(std::int64_t rank, bool has_error_feedback,
           const NamedTensors& parameters, const ReplicaSite& site)
      : names_(parameters) {
    for (const auto& [name, tensor] : parameters) {
      LowRank each{.shape = matrix_of(tensor.sizes(), rank)};
      if (each.shape.rank > 0) {
        each.first = first_query(name, each.shape, site.seed, tensor);
        each.query = each.first.clone();
        if (has_error_feedback)
          each.residual =
              at::zeros({each.shape.rows, each.shape.columns},
                        at::TensorOptions(at::kFloat).device(tensor.device()));
      }
      tensors_.push_back(std::move(each));
    }
  }

  void start(const Tensors& gradients, const ExchangedUpdate& /*update*/,
             Group& group) override {
    const at::NoGradGuard no_grad;
    like_ = gradients;
    Tensors all = gradients;
    for (std::size_t i = 0; i < all.size(); ++i) {
      LowRank& each = tensors_.at(i);
      if (!is_low_rank(i)) continue;
      each.matrix = gradients[i]
                        .detach()
                        .to(at::kFloat)
                        .reshape({each.shape.rows, each.shape.columns});
      if (each.residual.defined()) each.matrix = each.matrix + each.residual;
      all[i] = each.matrix.matmul(each.query);
    }
    publish(std::move(all), group);
  }

  void finish_first(Group& group) override {
    const at::NoGradGuard no_grad;
    sums_ = group.finish_sum();
    for (std::size_t i = 0; i < sums_.size(); ++i)
      if (is_low_rank(i)) tensors_[i].basis = basis_of(sums_[i]);
  }

  void start_second(Group& group) override {
    const at::NoGradGuard no_grad;
    Tensors all(sums_.size());
    for (std::size_t i = 0; i < all.size(); ++i)
      if (is_low_rank(i))
        all[i] = tensors_[i].matrix.t().matmul(tensors_[i].basis);
    publish(std::move(all), group);
  }

  Tensors finish(Group& group) override {
    const at::NoGradGuard no_grad;
    const Tensors queries = group.finish_sum();
    Tensors sums = std::exchange(sums_, {});
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (!is_low_rank(i)) continue;
      LowRank& each = tensors_[i];
      const at::Tensor sum = each.basis.matmul(queries[i].t());
      each.query.copy_(without_zero_columns(queries[i], each.first));
      if (each.residual.defined())
        each.residual.copy_(each.matrix - sum / group.members());
      each.matrix.reset();
      each.basis.reset();
      sums[i] =
          at::empty_like(like_[i].detach()).copy_(sum.view(like_[i].sizes()));
    }
    like_.clear();
    return sums;
  }

  NamedTensors state() const override {
    NamedTensors all;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const LowRank& each = tensors_[i];
      const std::string& name = names_[i].first;
      if (each.query.defined())
        all.emplace_back(fmt::format("compress.query.{}", name), each.query);
      if (each.residual.defined())
        all.emplace_back(fmt::format("compress.residual.{}", name),
                         each.residual);
    }
    return all;
  }
  std::int64_t sent_bytes() const override { return sent_bytes_; }

 private:
  bool is_low_rank(std::size_t index) const {
    return like_[index].defined() && tensors_[index].shape.rank > 0;
  }

  /// Publishes, and counts the bytes as those of a ring.
  void publish(Tensors all, Group& group) {
    sent_bytes_ += 2 * bytes_of(all) * (group.members() - 1) / group.members();
    group.start_sum(std::move(all));
  }

  const NamedTensors names_;
  std::vector<LowRank> tensors_;
  Tensors like_;  // gradients of the exchange that is under way
  Tensors sums_;  // of its first round
  std::int64_t sent_bytes_ = 0;
};

/// Mean bytes of one of the two rounds.
double bytes_in_two_sums(const std::vector<TensorSizes>& all,
                         std::int64_t rank) {
  double elements = 0;
  for (const TensorSizes& sizes : all) {
    const MatrixShape shape = matrix_of(sizes, rank);
    elements += static_cast<double>(
        shape.rank > 0 ? shape.rank * (shape.rows + shape.columns)
                       : shape.rows * shape.columns);
  }
  return elements * sizeof(float) / 2;
}

}  // namespace

CompressorKind compress_power_sgd(Fields& fields) {
  std::int64_t rank = 2;
  bool has_error_feedback = true;
  fields.key("rank", rank,
             {.text = "of the matrices that gradients become: columns of each "
                      "of the two thin ones",
              .min = 1,
              .max = 4096});
  read_error_feedback(fields, has_error_feedback);
  CompressorKind kind{.rounds = 2};
  kind.make = [rank, has_error_feedback](const NamedTensors& parameters,
                                         const ReplicaSite& site) {
    return std::make_unique<PowerSgd>(rank, has_error_feedback, parameters,
                                      site);
  };
  kind.bytes = [rank](const std::vector<TensorSizes>& all) {
    return bytes_in_two_sums(all, rank);
  };
  return kind;
}

}  // namespace sluice
