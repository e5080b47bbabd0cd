#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <c10/core/Event.h>

#include "lib/tensors/tensors.h"

namespace sluice {

/// Records whose figures a GPU has yet to compute are written when they are
/// there: the host, which would wait for the whole turn if it read them at
/// once, starts further turns meanwhile. They come by copies to pinned memory
/// in the computing stream, with an event for each record. Records keep their
/// order. One whose figures are on the CPU, with none before it, is written at
/// once. Used by one thread, whose current device is that of the figures.
class LateRecords {
 public:
  /// Values of a record's figures, in their order; nothing for an undefined
  /// one.
  using Values = std::vector<std::optional<double>>;
  using Write = std::function<void(const Values&)>;

  /// A record is written when so many updates have followed it at the latest;
  /// 0: at once.
  explicit LateRecords(std::int64_t most_updates) : most_(most_updates) {}

  /// figures: tensors of one element, or undefined; not written in place from
  /// now on.
  void add(const Tensors& figures, Write write);
  /// An update has been started: writes what is there, and waits for what is
  /// due.
  void updated();
  /// Waits for all figures, and writes the records.
  void settle();

 private:
  /// Where the figures of a record arrive; used again.
  struct Slot {
    Tensors pinned;
    c10::Event arrived;
  };
  struct Entry {
    Tensors figures;             ///< those in the slot, or on the CPU
    std::unique_ptr<Slot> slot;  ///< nullptr: all are on the CPU
    Write write;
    std::int64_t update = 0;  ///< those before it
  };

  std::unique_ptr<Slot> slot_for(const c10::Device& device);
  std::unique_ptr<Slot> fetch(Tensors& figures, const c10::Device& device);
  bool is_due(const Entry& entry) const;
  void write_first();

  std::int64_t most_;
  std::int64_t updates_ = 0;
  std::deque<Entry> entries_;  // the oldest first
  std::vector<std::unique_ptr<Slot>> free_;
};

}  // namespace sluice
