#include "tests/oracles/plain_compressors.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "lib/base/random.h"
#include "tests/oracles/plain_philox.h"

namespace sluice {
namespace {

using Numbers = PlainCompressor::Numbers;

void add(Numbers& to, const Numbers& numbers) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += numbers[i];
}

void subtract(Numbers& from, const Numbers& numbers) {
  for (std::size_t i = 0; i < from.size(); ++i) from[i] -= numbers[i];
}

/// ((1 + 2) + 3) + ...
Numbers added_up(const std::vector<Numbers>& all) {
  Numbers sum = all.front();
  for (std::size_t r = 1; r < all.size(); ++r) add(sum, all[r]);
  return sum;
}

/// The indices of as many numbers, largest magnitudes first.
std::vector<std::size_t> order_by_magnitude(const Numbers& numbers,
                                            double count) {
  std::vector<std::size_t> order(numbers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(
      order.begin(), order.end(), [&](std::size_t left, std::size_t right) {
        return std::fabs(numbers[left]) > std::fabs(numbers[right]);
      });
  order.resize(std::min(order.size(), static_cast<std::size_t>(count)));
  return order;
}

/// Every replica has a residual, of which it sends what `quantised` makes.
class Remembering final : public PlainCompressor {
 public:
  using Quantise = std::function<Numbers(const Numbers&)>;
  Remembering(const PlainTensor& tensor, Quantise quantised)
      : residuals_(tensor.replicas, Numbers(tensor.size)),
        quantised_(std::move(quantised)) {}

  Numbers sum(const std::vector<Numbers>& gradients, std::int64_t /*update*/,
              double /*epoch*/) override {
    std::vector<Numbers> sent;
    for (std::size_t r = 0; r < gradients.size(); ++r) {
      add(residuals_[r], gradients[r]);
      sent.push_back(quantised_(residuals_[r]));
      subtract(residuals_[r], sent.back());
    }
    return added_up(sent);
  }

 private:
  std::vector<Numbers> residuals_;
  Quantise quantised_;
};

/// A16, without clipping.
class Dgc final : public PlainCompressor {
 public:
  Dgc(const PlainTensor& tensor, double ratio, float momentum, bool masking,
      double warmup)
      : u_(tensor.replicas, Numbers(tensor.size)),
        v_(u_),
        ratio_(ratio),
        momentum_(momentum),
        masking_(masking),
        warmup_(warmup) {}

  Numbers sum(const std::vector<Numbers>& gradients, std::int64_t /*update*/,
              double epoch) override {
    const double part =
        epoch < warmup_
            ? std::pow(ratio_, (std::floor(epoch) + 1) / (warmup_ + 1))
            : ratio_;
    std::vector<Numbers> sent;
    for (std::size_t r = 0; r < gradients.size(); ++r) {
      Numbers& u = u_[r];
      Numbers& v = v_[r];
      for (float& each : u) each *= momentum_;
      add(u, gradients[r]);
      add(v, u);
      sent.emplace_back(v.size());
      const double count = std::ceil(part * static_cast<double>(v.size()));
      for (const std::size_t i : order_by_magnitude(v, count)) {
        sent.back()[i] = std::exchange(v[i], 0.0F);
        if (masking_) u[i] = 0;
      }
    }
    return added_up(sent);
  }

 private:
  std::vector<Numbers> u_;
  std::vector<Numbers> v_;
  double ratio_;
  float momentum_;
  bool masking_;
  double warmup_;
};

int sign_of(float number) {
  return number > 0 ? 1 : number < 0 ? -1 : 0;
}

/// A15: each row by the means of its two halves; what is 0 is in neither.
Numbers halves_of(const Numbers& numbers, std::size_t rows) {
  Numbers means;
  const std::size_t length = numbers.size() / rows;
  for (std::size_t row = 0; row < rows; ++row) {
    std::map<int, double> sums;
    std::map<int, int> counts;
    for (std::size_t i = row * length; i < (row + 1) * length; ++i) {
      sums[sign_of(numbers[i])] += static_cast<double>(numbers[i]);
      ++counts[sign_of(numbers[i])];
    }
    for (std::size_t i = row * length; i < (row + 1) * length; ++i) {
      const int half = sign_of(numbers[i]);
      means.push_back(
          half == 0 ? 0 : static_cast<float>(sums[half] / counts[half]));
    }
  }
  return means;
}

/// With a second residual of the sum, wherever that is made.
class OneBit final : public PlainCompressor {
 public:
  explicit OneBit(const PlainTensor& tensor)
      : replicas_(tensor,
                  [rows = tensor.rows](const Numbers& numbers) {
                    return halves_of(numbers, rows);
                  }),
        rows_(tensor.rows),
        residual_(tensor.size) {}

  Numbers sum(const std::vector<Numbers>& gradients, std::int64_t update,
              double epoch) override {
    add(residual_, replicas_.sum(gradients, update, epoch));
    const Numbers sent = halves_of(residual_, rows_);
    subtract(residual_, sent);
    return sent;
  }

 private:
  Remembering replicas_;
  std::size_t rows_;
  Numbers residual_;
};

/// A21, keyed by seed, replica, update and name.
class Qsgd final : public PlainCompressor {
 public:
  Qsgd(PlainTensor tensor, int levels, std::size_t bucket)
      : tensor_(std::move(tensor)), levels_(levels), bucket_(bucket) {}

  Numbers sum(const std::vector<Numbers>& gradients, std::int64_t update,
              double /*epoch*/) override {
    std::vector<Numbers> sent;
    for (std::size_t r = 0; r < gradients.size(); ++r)
      sent.push_back(quantised(
          gradients[r],
          plain_philox(random_key({tensor_.seed, key_part("qsgd"), r + 1,
                                   static_cast<std::uint64_t>(update),
                                   key_part(tensor_.name)}))));
    return added_up(sent);
  }

 private:
  Numbers quantised(const Numbers& numbers, const PlainPhilox& chance) const {
    Numbers all;
    double norm = 0;  // of the bucket, as it is sent
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (i % bucket_ == 0)
        norm = norm_of(numbers, i, std::min(i + bucket_, numbers.size()));
      const auto value = static_cast<double>(numbers[i]);
      const double place = norm > 0 ? std::fabs(value) / norm * levels_ : 0;
      const double drawn = static_cast<double>(chance.numbers(
                               {i / 4 % PlainPhilox::kWord, 0, 0, 0})[i % 4]) /
                           static_cast<double>(PlainPhilox::kWord);
      double level = std::floor(place);
      if (drawn < place - level) level += 1;
      level = std::min(level, static_cast<double>(levels_));
      all.push_back(static_cast<float>(norm * (value < 0 ? -level : level) /
                                       static_cast<double>(levels_)));
    }
    return all;
  }

  static double norm_of(const Numbers& numbers, std::size_t begin,
                        std::size_t end) {
    double squares = 0;
    for (std::size_t i = begin; i < end; ++i)
      squares +=
          static_cast<double>(numbers[i]) * static_cast<double>(numbers[i]);
    return static_cast<double>(static_cast<float>(std::sqrt(squares)));
  }

  PlainTensor tensor_;
  int levels_;
  std::size_t bucket_;
};

/// A22: what the majority's sign is, times the number of replicas, by which the
/// sum is divided.
class Majority final : public PlainCompressor {
 public:
  Majority(const PlainTensor& tensor, float momentum)
      : means_(tensor.replicas, Numbers(tensor.size)), momentum_(momentum) {}

  Numbers sum(const std::vector<Numbers>& gradients, std::int64_t /*update*/,
              double /*epoch*/) override {
    std::vector<int> votes(gradients.front().size());
    for (std::size_t r = 0; r < gradients.size(); ++r)
      for (std::size_t i = 0; i < votes.size(); ++i) {
        float& mean = means_[r][i];
        mean = momentum_ * mean + (1 - momentum_) * gradients[r][i];
        votes[i] += sign_of(mean);
      }
    Numbers decided;
    const auto all = static_cast<float>(gradients.size());
    for (const int vote : votes)
      decided.push_back(vote == 0 ? 0 : vote > 0 ? all : -all);
    return decided;
  }

 private:
  std::vector<Numbers> means_;
  float momentum_;
};

/// Rows of numbers, in double.
struct Matrix {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::vector<double> at;

  Matrix(std::size_t rows_of, std::size_t columns_of)
      : rows(rows_of), columns(columns_of), at(rows * columns) {}
  double& of(std::size_t i, std::size_t j) { return at[i * columns + j]; }
  double of(std::size_t i, std::size_t j) const { return at[i * columns + j]; }
};

Matrix product(const Matrix& left, const Matrix& right) {
  Matrix all(left.rows, right.columns);
  for (std::size_t i = 0; i < left.rows; ++i)
    for (std::size_t k = 0; k < left.columns; ++k)
      for (std::size_t j = 0; j < right.columns; ++j)
        all.of(i, j) += left.of(i, k) * right.of(k, j);
  return all;
}

Matrix transposed(const Matrix& matrix) {
  Matrix all(matrix.columns, matrix.rows);
  for (std::size_t i = 0; i < matrix.rows; ++i)
    for (std::size_t j = 0; j < matrix.columns; ++j)
      all.of(j, i) = matrix.of(i, j);
  return all;
}

/// Gram and Schmidt, column after column.
Matrix orthonormal(Matrix matrix) {
  const auto dot = [&](std::size_t left, std::size_t right) {
    double sum = 0;
    for (std::size_t i = 0; i < matrix.rows; ++i)
      sum += matrix.of(i, left) * matrix.of(i, right);
    return sum;
  };
  for (std::size_t j = 0; j < matrix.columns; ++j) {
    for (std::size_t before = 0; before < j; ++before) {
      const double along = dot(before, j);
      for (std::size_t i = 0; i < matrix.rows; ++i)
        matrix.of(i, j) -= along * matrix.of(i, before);
    }
    const double norm = std::sqrt(dot(j, j));
    for (std::size_t i = 0; i < matrix.rows; ++i) matrix.of(i, j) /= norm;
  }
  return matrix;
}

/// A20. Q begins with keyed normal numbers, row by row.
class PowerSgd final : public PlainCompressor {
 public:
  PowerSgd(const PlainTensor& tensor, std::size_t rank)
      : rows_(tensor.rows),
        columns_(tensor.size / tensor.rows),
        is_matrix_(rows_ > 1 && rank * (rows_ + columns_) < rows_ * columns_),
        query_(columns_, rank),
        errors_(tensor.replicas, Matrix(rows_, columns_)) {
    KeyedRandom random(random_key(
        {tensor.seed, key_part("power_sgd"), key_part(tensor.name)}));
    for (double& each : query_.at) each = random.normal();
  }

  Numbers sum(const std::vector<Numbers>& gradients, std::int64_t /*update*/,
              double /*epoch*/) override {
    if (!is_matrix_) return added_up(gradients);
    const auto count = static_cast<double>(gradients.size());
    Matrix mean(rows_, columns_);
    for (std::size_t r = 0; r < gradients.size(); ++r)
      for (std::size_t i = 0; i < mean.at.size(); ++i) {
        errors_[r].at[i] += static_cast<double>(gradients[r][i]);
        mean.at[i] += errors_[r].at[i] / count;
      }
    const Matrix basis = orthonormal(product(mean, query_));
    query_ = product(transposed(mean), basis);
    const Matrix applied = product(basis, transposed(query_));
    Numbers sum;
    for (std::size_t i = 0; i < applied.at.size(); ++i) {
      for (Matrix& error : errors_) error.at[i] -= applied.at[i];
      sum.push_back(static_cast<float>(applied.at[i] * count));
    }
    return sum;
  }

 private:
  std::size_t rows_;
  std::size_t columns_;
  bool is_matrix_;
  Matrix query_;
  std::vector<Matrix> errors_;
};

}  // namespace

MakePlainCompressor plain_top_k(double ratio) {
  return [ratio](const PlainTensor& tensor) {
    return std::make_unique<Remembering>(tensor, [ratio](const Numbers& from) {
      Numbers sent(from.size());
      const double count = std::ceil(ratio * static_cast<double>(from.size()));
      for (const std::size_t i : order_by_magnitude(from, count))
        sent[i] = from[i];
      return sent;
    });
  };
}

MakePlainCompressor plain_threshold(float threshold) {
  return [threshold](const PlainTensor& tensor) {
    return std::make_unique<Remembering>(
        tensor, [threshold](const Numbers& from) {
          Numbers sent;
          for (const float each : from)
            sent.push_back(each >= threshold    ? threshold
                           : each <= -threshold ? -threshold
                                                : 0);
          return sent;
        });
  };
}

MakePlainCompressor plain_dgc(double ratio, float momentum, bool masking,
                              double warmup) {
  return [=](const PlainTensor& tensor) {
    return std::make_unique<Dgc>(tensor, ratio, momentum, masking, warmup);
  };
}

MakePlainCompressor plain_one_bit() {
  return [](const PlainTensor& tensor) {
    return std::make_unique<OneBit>(tensor);
  };
}

MakePlainCompressor plain_qsgd(int levels, std::size_t bucket) {
  return [=](const PlainTensor& tensor) {
    return std::make_unique<Qsgd>(tensor, levels, bucket);
  };
}

MakePlainCompressor plain_e3m0(std::size_t bucket) {
  return [bucket](const PlainTensor& tensor) {
    return std::make_unique<Remembering>(tensor, [bucket](const Numbers& from) {
      Numbers sent;
      float most = 0;
      for (std::size_t i = 0; i < from.size(); ++i) {
        if (i % bucket == 0) {
          most = 0;
          for (std::size_t j = i; j < std::min(i + bucket, from.size()); ++j)
            most = std::max(most, std::fabs(from[j]));
        }
        const float part = most > 0 ? std::fabs(from[i]) / most : 0;
        float nearest = 0;
        for (const float each :
             {0.015625F, 0.03125F, 0.0625F, 0.125F, 0.25F, 0.5F, 1.0F})
          if (std::fabs(part - each) <= std::fabs(part - nearest))
            nearest = each;
        sent.push_back(std::copysign(most * nearest, from[i]));
      }
      return sent;
    });
  };
}

MakePlainCompressor plain_majority(float momentum) {
  return [momentum](const PlainTensor& tensor) {
    return std::make_unique<Majority>(tensor, momentum);
  };
}

MakePlainCompressor plain_scaled_signs() {
  return [](const PlainTensor& tensor) {
    return std::make_unique<Remembering>(tensor, [](const Numbers& from) {
      double sum = 0;
      for (const float each : from) sum += static_cast<double>(std::fabs(each));
      const auto mean =
          static_cast<float>(sum / static_cast<double>(from.size()));
      Numbers sent;
      for (const float each : from)
        sent.push_back(static_cast<float>(sign_of(each)) * mean);
      return sent;
    });
  };
}

MakePlainCompressor plain_power_sgd(std::size_t rank) {
  return [rank](const PlainTensor& tensor) {
    return std::make_unique<PowerSgd>(tensor, rank);
  };
}

}  // namespace sluice
