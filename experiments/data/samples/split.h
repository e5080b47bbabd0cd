#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace sluice {

class Samples;

/// One split of a data set. The size is known at once; the samples are read at
/// the first samples(), because few processes need them. Copies share them.
class Split {
 public:
  using Load = std::function<std::shared_ptr<const Samples>()>;

  Split() = default;
  Split(std::int64_t size, Load load);

  std::int64_t size() const { return size_; }
  /// Reads them at the first call. Several threads may call it. Throws
  /// UserError for a file that is damaged, or has changed since its size was
  /// read.
  std::shared_ptr<const Samples> samples() const;

 private:
  struct State;

  std::int64_t size_ = 0;
  std::shared_ptr<State> state_;
};

}  // namespace sluice
