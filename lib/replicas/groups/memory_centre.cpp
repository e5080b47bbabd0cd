#include "lib/replicas/groups/memory_centre.h"

#include <cstdint>
#include <optional>
#include <utility>

namespace sluice {
namespace {

class MemoryCentreLink final : public CentreLink {
 public:
  MemoryCentreLink(std::shared_ptr<Centre> centre, int member)
      : centre_(std::move(centre)), member_(member) {}
  ~MemoryCentreLink() override {
    if (!has_finished_) centre_->leave(member_);
  }
  MemoryCentreLink(const MemoryCentreLink&) = delete;
  MemoryCentreLink& operator=(const MemoryCentreLink&) = delete;

  int members() const override { return centre_->members(); }
  int member() const override { return member_; }
  Centre* owned() override { return member_ == 1 ? centre_.get() : nullptr; }
  ServerAnswer visit(Push push) override {
    return centre_->serve(std::move(push));
  }
  std::int64_t bring(Push push) override {
    return centre_->bring(std::move(push));
  }
  MergeResult take(bool told) override { return centre_->take(member_, told); }
  std::optional<std::int64_t> deal(std::int64_t first,
                                   std::int64_t end) override {
    return centre_->deal(member_, first, end);
  }
  void arrive(Tensors statistics) override {
    centre_->arrive(member_, std::move(statistics));
    ++arrivals_;
  }
  void await_rest() override { centre_->await_rest(arrivals_); }
  void finish() override { has_finished_ = true; }

 private:
  const std::shared_ptr<Centre> centre_;
  const int member_;
  std::int64_t arrivals_ = 0;
  bool has_finished_ = false;
};

}  // namespace

std::unique_ptr<CentreLink> link_to_centre(std::shared_ptr<Centre> centre,
                                           int member) {
  return std::make_unique<MemoryCentreLink>(std::move(centre), member);
}

std::vector<std::unique_ptr<CentreLink>> memory_centre(
    int members, Deadline deadline, const std::string& name) {
  const auto centre = std::make_shared<Centre>(members, deadline, name);
  std::vector<std::unique_ptr<CentreLink>> all;
  for (int member = 1; member <= members; ++member)
    all.push_back(link_to_centre(centre, member));
  return all;
}

}  // namespace sluice
