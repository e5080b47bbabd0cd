#include "lib/replicas/groups/memory.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

#include "lib/base/error.h"
#include "lib/replicas/shared_weights.h"
#include "lib/tensors/sums.h"

namespace sluice {
namespace {

/// A sum, with what each replica has published.
struct Sum {
  std::vector<Tensors> parts;
  std::vector<bool> is_there;  // of each
  std::size_t published = 0;
  std::size_t taken = 0;

  bool is_complete() const { return published == parts.size(); }
};

/// State that the members share.
struct Table {
  std::mutex mutex;  // guards all below
  std::condition_variable changed;
  std::deque<Sum> sums;   // that not all have taken
  std::int64_t over = 0;  // number of those that all have
  std::vector<bool> gone;

  /// Weights that replicas share, without the group's mutex: SharedWeights has
  /// its own rules.
  const std::shared_ptr<SharedWeights> weights =
      std::make_shared<SharedWeights>();

  Sum& at(std::int64_t number, std::size_t members) {
    const auto index = static_cast<std::size_t>(number - over);
    while (sums.size() <= index)
      sums.push_back(
          {std::vector<Tensors>(members), std::vector<bool>(members)});
    return sums[index];
  }
};

class MemoryGroup final : public Group {
 public:
  MemoryGroup(std::shared_ptr<Table> table, int member, Deadline deadline,
              std::string name)
      : table_(std::move(table)),
        member_(member),
        deadline_(deadline),
        name_(std::move(name)) {}
  ~MemoryGroup() override {
    const std::lock_guard lock(table_->mutex);
    table_->gone[index()] = true;
    table_->changed.notify_all();
  }
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;

  int members() const override { return static_cast<int>(table_->gone.size()); }
  int member() const override { return member_; }

  void start_sum(Tensors mine) override {
    const std::lock_guard lock(table_->mutex);
    Sum& sum = table_->at(published_++, table_->gone.size());
    sum.parts[index()] = std::move(mine);
    sum.is_there[index()] = true;
    ++sum.published;
    table_->changed.notify_all();
  }

  Tensors finish_sum() override { return sum_in_order(take()); }
  Tensors finish_mean() override { return mean_in_order(take()); }

  Tensors finish_parts() override {
    std::vector<Tensors> published = take();
    for (Tensors& each : published) each = parts_of(each, share());
    return sum_in_order(published);
  }

  void start_gather(const Tensors& whole) override {
    start_sum(parts_of(whole, share()));
  }

  void finish_gather(const Tensors& whole) override {
    const at::NoGradGuard no_grad;
    const std::vector<Tensors> published = take();
    for (int other = 1; other <= members(); ++other)
      if (other != member_)
        take_parts(whole, other,
                   published[static_cast<std::size_t>(other) - 1]);
  }

  void start_share(Tensors mine, const Peers& peers) override {
    awaited_ = peers.from;
    start_sum(std::move(mine));
  }

  std::vector<Tensors> finish_share() override {
    SLUICE_CHECK(awaited_, "{}: nothing is shared", name_);
    const std::vector<int> from = *awaited_;
    const std::vector<Tensors> published = take();
    awaited_.reset();
    std::vector<Tensors> theirs;
    for (const int other : from)
      theirs.push_back(published[static_cast<std::size_t>(other) - 1]);
    return theirs;
  }

  void start_swap(Tensors to_each) override { start_sum(std::move(to_each)); }

  Tensors finish_swap() override {
    Tensors from_each;
    for (const Tensors& published : take())
      from_each.push_back(published.at(index()));
    return from_each;
  }

  std::shared_ptr<SharedWeights> shared_weights() override {
    return table_->weights;
  }

  bool is_ready() const override {
    const std::lock_guard lock(table_->mutex);
    return has_awaited(table_->at(taken_, table_->gone.size()));
  }

 private:
  std::size_t index() const { return static_cast<std::size_t>(member_) - 1; }

  /// Takes what all members have published.
  std::vector<Tensors> take() {
    std::unique_lock lock(table_->mutex);
    const auto members = table_->gone.size();
    const std::int64_t number = taken_++;
    const auto is_over = [&] {
      const Sum& sum = table_->at(number, members);
      return has_awaited(sum) || lost(sum) != 0;
    };
    if (!table_->changed.wait_for(lock, deadline_, is_over))
      throw LinkError("{}: replica {} has waited {} s for the others", name_,
                      member_, deadline_.count() / 1000);
    Sum& sum = table_->at(number, members);
    if (!has_awaited(sum))
      throw PeerGoneError("{}: replica {} is gone", name_, lost(sum));
    std::vector<Tensors> parts = sum.parts;
    ++sum.taken;
    while (!table_->sums.empty() && table_->sums.front().taken == members) {
      table_->sums.pop_front();
      ++table_->over;
    }
    return parts;
  }

  /// Whether those have published their parts whom this member waits for.
  bool has_awaited(const Sum& sum) const {
    if (!awaited_) return sum.is_complete();
    return std::all_of(awaited_->begin(), awaited_->end(), [&](int other) {
      return sum.is_there[static_cast<std::size_t>(other) - 1];
    });
  }

  /// A replica that is gone and has not published its part; 0: none.
  int lost(const Sum& sum) const {
    for (int other = 1; other <= members(); ++other) {
      const auto i = static_cast<std::size_t>(other) - 1;
      if (table_->gone[i] && !sum.is_there[i] && waits_for(other)) return other;
    }
    return 0;
  }

  bool waits_for(int other) const {
    return !awaited_ || std::find(awaited_->begin(), awaited_->end(), other) !=
                            awaited_->end();
  }

  const std::shared_ptr<Table> table_;
  const int member_;
  const Deadline deadline_;
  const std::string name_;
  std::int64_t published_ = 0;  // sums
  std::int64_t taken_ = 0;      // sums
  /// Of what is shared, from the start to the finish; else all are.
  std::optional<std::vector<int>> awaited_;
};

}  // namespace

std::vector<std::unique_ptr<Group>> memory_group(int members, Deadline deadline,
                                                 const std::string& name) {
  const auto table = std::make_shared<Table>();
  table->gone.resize(static_cast<std::size_t>(members));
  std::vector<std::unique_ptr<Group>> all;
  for (int member = 1; member <= members; ++member)
    all.push_back(std::make_unique<MemoryGroup>(table, member, deadline, name));
  return all;
}

}  // namespace sluice
