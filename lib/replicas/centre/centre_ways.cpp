#include "lib/replicas/centre/centre_ways.h"

#include <cstdint>
#include <iterator>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "lib/base/error.h"
#include "lib/tensors/sums.h"

namespace sluice {

namespace {

CentreWays::Links only_one(std::unique_ptr<CentreLink> link) {
  CentreWays::Links links;
  links.emplace(1, std::move(link));
  return links;
}

at::Tensor line_of_all(const Tensors& tensors) {
  Tensors lines;
  for (const at::Tensor& each : tensors) lines.push_back(each.reshape({-1}));
  return at::cat(lines);
}

/// The inverse, for tensors laid out as these.
Tensors tensors_of_line(const at::Tensor& line, const Tensors& like) {
  Tensors all;
  std::int64_t begin = 0;
  for (const at::Tensor& each : like) {
    const at::Tensor piece = line.slice(0, begin, begin + each.numel());
    all.push_back(at::empty_like(each).copy_(piece.view(each.sizes())));
    begin += each.numel();
  }
  return all;
}

/// All elements in lines, one of the weights and one of the statistics: a
/// message of a link has room for few tensors.
Tensors in_lines(const Tensors& weights, const Tensors& statistics) {
  Tensors lines;
  for (const Tensors* each : {&weights, &statistics})
    if (!each->empty()) lines.push_back(line_of_all(*each));
  return lines;
}

/// The inverse, of tensors such as these.
std::pair<Tensors, Tensors> from_lines(const Tensors& lines,
                                       const Tensors& weights,
                                       const Tensors& statistics) {
  std::pair<Tensors, Tensors> both;
  auto next = lines.begin();
  if (!weights.empty()) both.first = tensors_of_line(*next++, weights);
  if (!statistics.empty()) both.second = tensors_of_line(*next, statistics);
  return both;
}

}  // namespace

CentreWays::CentreWays(std::unique_ptr<CentreLink> link)
    : CentreWays(only_one(std::move(link))) {}

CentreWays::CentreWays(Links links) : links_(std::move(links)) {
  SLUICE_CHECK(!links_.empty(), "a replica without a way to a centre");
}

CentreLink* CentreWays::own() const {
  const auto found = links_.find(member());
  return found == links_.end() ? nullptr : found->second.get();
}

/// The weights of visitors go to the first centre, which tells replica 1; those
/// of hosts lie in theirs.
void CentreWays::arrive(const Tensors& weights, const Tensors& statistics) {
  for (const auto& [host, link] : links_) {
    if (!are_several() || link.get() == own())
      link->arrive(statistics);
    else if (own() == nullptr && link.get() == &first())
      link->arrive(in_lines(weights, statistics));
    else
      link->arrive({});
  }
}

void CentreWays::await_rest() {
  for (const auto& [host, link] : links_) link->await_rest();
  if (member() > 1) return;
  agreed_ = are_several() ? merged() : first().at_rest();
}

/// The means over all replicas: of the visitors, and of each host.
CentreAtRest CentreWays::merged() {
  std::vector<Tensors> weights(1);
  std::vector<Tensors> statistics(1);
  std::vector<std::int64_t> replicas = {members() - std::ssize(links_)};
  for (const auto& [host, link] : links_) {
    CentreAtRest its = link->take_rest().value();
    if (link.get() == &first())
      std::tie(weights[0], statistics[0]) =
          from_lines(its.visitors, its.weights, its.statistics);
    weights.push_back(std::move(its.weights));
    statistics.push_back(std::move(its.statistics));
    replicas.push_back(1);
  }
  return {.weights = weighted_mean_in_order(weights, replicas),
          .statistics = weighted_mean_in_order(statistics, replicas)};
}

void CentreWays::finish() {
  for (const auto& [host, link] : links_) link->finish();
}

}  // namespace sluice
