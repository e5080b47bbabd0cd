#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "experiments/sweep/file/sweep.h"

namespace sluice::sweep {

/// A line that the driver of an ask/tell sweep has written.
struct Request {
  enum class Kind { propose, prune };
  Kind kind = Kind::propose;
  nlohmann::ordered_json id = nullptr;  ///< a text or an integer; null: none
  std::vector<CellValue> values = {};   ///< of a proposal
  std::optional<std::int64_t> seed = {};
};

/// Reads {"id": 7, "params": {"optimizer.lr": 0.01}, "seed": 1}, the id and the
/// seed may be missing; or {"prune": 7}. Throws BadRequest.
Request request_of(const std::string& line);

/// Error of a line, and the id of its trial, as far as the line has one.
class BadRequest : public std::runtime_error {
 public:
  BadRequest(const std::string& text, nlohmann::ordered_json id)
      : std::runtime_error(text), id_(std::move(id)) {}
  const nlohmann::ordered_json& id() const { return id_; }

 private:
  nlohmann::ordered_json id_;
};

}  // namespace sluice::sweep
