#pragma once

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "lib/replicas/centre/centre_host.h"
#include "lib/replicas/centre/centre_link.h"
#include "lib/tensors/tensors.h"

// Replicas' ways to a centre of parameters "w", [4] float64.
namespace sluice::centre_links {

inline constexpr Deadline kPatience = std::chrono::seconds(60);

using CentreLinks = std::vector<std::unique_ptr<CentreLink>>;

inline at::Tensor start() {
  return at::arange(4, at::kDouble);
}

inline CentreSetup setup_of(int members, std::unique_ptr<CentreRule> rule,
                            const Quorum& quorum = {}) {
  const auto held =
      std::make_shared<std::unique_ptr<CentreRule>>(std::move(rule));
  return {.members = members,
          .name = "block 1",
          .quorum = quorum,
          .make = [held](const NamedTensors& /*parameters*/) {
            return std::move(*held);
          }};
}

/// The ways of all replicas to a centre, which isn't open.
inline CentreLinks closed(int members, std::unique_ptr<CentreRule> rule,
                          const Quorum& quorum = {}) {
  return links_to_centre(setup_of(members, std::move(rule), quorum), 1,
                         kPatience);
}

inline CentreLinks opened(int members, std::unique_ptr<CentreRule> rule,
                          const Quorum& quorum = {}) {
  CentreLinks links = closed(members, std::move(rule), quorum);
  links.front()->open({.parameters = {{"w", start()}}});
  return links;
}

inline const CentreAtRest& rest_of(const CentreLinks& links) {
  return links.front()->at_rest().value();
}

/// All come to rest.
inline void rest(CentreLinks& links) {
  for (auto& link : links) link->arrive({});
  for (auto& link : links) link->await_rest();
}

inline void finish(CentreLinks& links) {
  for (auto& link : links) link->finish();
}
}  // namespace sluice::centre_links
