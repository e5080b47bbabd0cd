#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "lib/base/messages/channel.h"

namespace sluice {

/// A sending end put around another one, which it owns: the derived class says
/// what becomes of messages, all else is the inner one's.
class SenderAround : public Sender {
 public:
  bool ready() const override { return inner_->ready(); }
  void ring(std::shared_ptr<Bell> bell) override {
    inner_->ring(std::move(bell));
  }
  void close() override { inner_->close(); }

 protected:
  explicit SenderAround(std::unique_ptr<Sender> inner)
      : inner_(std::move(inner)) {}
  Sender& inner() const { return *inner_; }

 private:
  std::unique_ptr<Sender> inner_;
};

/// A receiving end put around another one, which it owns.
class ReceiverAround : public Receiver {
 public:
  bool discard() override { return inner_->discard(); }
  bool ready() const override { return inner_->ready(); }
  std::optional<MessageHead> next() const override { return inner_->next(); }
  std::optional<std::chrono::steady_clock::time_point> next_arrived()
      const override {
    return inner_->next_arrived();
  }
  void ring(std::shared_ptr<Bell> bell) override {
    inner_->ring(std::move(bell));
  }
  std::size_t waiting_bytes() const override { return inner_->waiting_bytes(); }

 protected:
  explicit ReceiverAround(std::unique_ptr<Receiver> inner)
      : inner_(std::move(inner)) {}
  Receiver& inner() const { return *inner_; }

 private:
  std::unique_ptr<Receiver> inner_;
};

}  // namespace sluice
