#include "lib/replicas/groups/links.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/replicas/flat_tensors.h"
#include "lib/tensors/gpu/staging.h"
#include "lib/tensors/pack.h"
#include "lib/tensors/sums.h"

namespace sluice {
namespace {

/// The messages of a sum that a replica sends to each other one: its elements
/// of the other's part, and the sums of its own part. Of two replicas each adds
/// up all: the byte count is equal, with one wait instead of two.
/// In a gather the second step is the only one; a swap has one of its own.
enum class Step : std::int64_t { elements, sums, swapped };

/// Layout in a swap, whose messages describe their tensors themselves.
constexpr std::int64_t kNoLayout = 0;

/// Parts of the share that hold elements, and so are sent.
Tensors pieces_of(const Tensors& tensors, const Share& share) {
  Tensors pieces;
  for (const at::Tensor& part : parts_of(tensors, share))
    if (part.defined() && part.numel() > 0) pieces.push_back(part);
  return pieces;
}

/// The elements in one line where they lie on a GPU, for which each tensor of a
/// message costs a copy. They are copies there: the message may leave while the
/// next update writes the weights.
Tensors in_one_line(Tensors pieces) {
  if (pieces.empty() || pieces.front().is_cpu()) return pieces;
  const auto type = pieces.front().scalar_type();
  if (std::all_of(pieces.begin(), pieces.end(), [&](const at::Tensor& piece) {
        return piece.scalar_type() == type;
      })) {
    for (at::Tensor& piece : pieces) piece = line_of(piece);
    return {at::cat(pieces)};
  }
  for (at::Tensor& piece : pieces) piece = piece.clone();
  return pieces;
}

/// Inverse of in_one_line(), for the lines that arrived for these pieces.
Tensors in_pieces(const Tensors& lines, const Tensors& pieces) {
  if (lines.size() != 1 || pieces.size() < 2) return lines;
  std::vector<std::int64_t> sizes;
  for (const at::Tensor& piece : pieces) sizes.push_back(piece.numel());
  return lines.front().split_with_sizes(sizes);
}

/// Combines the tensors of all replicas into one, in the order of the replicas.
using Combine = void (*)(at::Tensor& into, const Tensors& parts);

void add_in_order(at::Tensor& sum, const Tensors& parts) {
  at::add_out(sum, parts.at(0), parts.at(1));
  for (std::size_t r = 2; r < parts.size(); ++r) sum.add_(parts[r]);
}

class LinksGroup final : public Group {
 public:
  LinksGroup(std::vector<Link> links, int member, std::string name)
      : links_(std::move(links)), member_(member), name_(std::move(name)) {}
  ~LinksGroup() override {
    for (Link& link : links_)
      if (link.sender) link.sender->close();
  }
  LinksGroup(const LinksGroup&) = delete;
  LinksGroup& operator=(const LinksGroup&) = delete;

  int members() const override { return static_cast<int>(links_.size()); }
  int member() const override { return member_; }

  void start_sum(Tensors mine) override {
    const at::NoGradGuard no_grad;
    begin(mine);
    for (int other = 1; other <= members(); ++other)
      if (other != member_) send(other, Step::elements, range(*mine_, other));
  }

  Tensors finish_sum() override { return finish(add_in_order); }
  Tensors finish_mean() override { return finish(mean_into); }

  void start_parts(Tensors mine) override {
    const at::NoGradGuard no_grad;
    begin(mine);
    for (int other = 1; other <= members(); ++other)
      if (other != member_)
        send(other, Step::elements,
             pieces_of(mine_->tensors(), {other, members()}));
  }

  Tensors finish_parts() override {
    const at::NoGradGuard no_grad;
    Tensors sums;
    for (const at::Tensor& part : parts_of(mine_->tensors(), share()))
      sums.push_back(part.defined() ? at::empty_like(part) : part);
    Tensors own;
    for (const at::Tensor& sum : sums)
      if (sum.defined() && sum.numel() > 0) own.push_back(sum);
    combine(pieces_of(mine_->tensors(), share()), own, add_in_order);
    end();
    return sums;
  }

  void start_gather(const Tensors& whole) override {
    const at::NoGradGuard no_grad;
    begin(whole);
    for (int other = 1; other <= members(); ++other)
      if (other != member_)
        send(other, Step::sums, pieces_of(mine_->tensors(), share()));
  }

  void finish_gather(const Tensors& whole) override {
    const at::NoGradGuard no_grad;
    for (int other = 1; other <= members(); ++other)
      if (other != member_)
        take(other, Step::sums, pieces_of(whole, {other, members()}));
    end();
  }

  void start_share(Tensors mine, const Peers& peers) override {
    const at::NoGradGuard no_grad;
    begin(mine);
    awaited_ = peers.from;
    const Tensors elements = in_one_line(pieces_of(mine_->tensors(), {}));
    for (const int other : peers.to) send(other, Step::elements, elements);
  }

  std::vector<Tensors> finish_share() override {
    const at::NoGradGuard no_grad;
    SLUICE_CHECK(awaited_, "{}: nothing is shared", name_);
    std::vector<Tensors> theirs;
    for (const int other : *awaited_)
      theirs.push_back(as_tensors(
          receive(other, Step::elements, pieces_of(mine_->tensors(), {}))));
    awaited_.reset();
    end();
    return theirs;
  }

  void start_swap(Tensors to_each) override {
    SLUICE_CHECK(!mine_, "{}: a swap begins before the last sum has ended",
                 name_);
    SLUICE_CHECK(to_each.size() == links_.size(), "{} messages for {} replicas",
                 to_each.size(), links_.size());
    for (int other = 1; other <= members(); ++other)
      if (other != member_)
        send(other, Step::swapped, {by_block(to_each, other)}, kNoLayout);
    own_ = by_block(to_each, member_);
  }

  Tensors finish_swap() override {
    Tensors from_each;
    for (int each = 1; each <= members(); ++each) {
      const Tensors sent = each == member_
                               ? Tensors{own_}
                               : receive(each, Step::swapped, kNoLayout);
      if (sent.size() != 1)
        throw LinkError("{}: replica {} has sent {} tensors for one", name_,
                        each, sent.size());
      from_each.push_back(sent.front());
    }
    own_.reset();
    ++sums_;
    return from_each;
  }

  /// Messages of the first step alone don't make the sum ready.
  bool is_ready() const override {
    for (std::size_t i = 0; i < links_.size(); ++i) {
      const Link& link = links_[i];
      if (link.receiver && waits_for(static_cast<int>(i) + 1) &&
          !link.receiver->ready())
        return false;
    }
    return true;
  }

 private:
  void begin(const Tensors& mine) {
    SLUICE_CHECK(!mine_, "{}: a sum begins before the last one has ended",
                 name_);
    mine_.emplace(mine);
  }

  void end() {
    mine_.reset();
    ++sums_;
  }

  bool waits_for(int other) const {
    return !awaited_ || std::find(awaited_->begin(), awaited_->end(), other) !=
                            awaited_->end();
  }

  /// Elements from another member, laid out as this member's tensors.
  Tensors as_tensors(const Tensors& lines) const {
    Tensors all;
    auto next = lines.begin();
    for (const at::Tensor& mine : mine_->tensors()) {
      all.emplace_back();
      if (!mine.defined()) continue;
      all.back() = at::empty_like(mine);
      if (mine.numel() == 0) continue;
      SLUICE_CHECK(next != lines.end(), "{}: {} pieces are too few", name_,
                   lines.size());
      line_of(all.back()).copy_(*next++);
    }
    return all;
  }

  void gather_parts(const FlatTensors& out) {
    for (int other = 1; other <= members(); ++other)
      if (other != member_) send(other, Step::sums, range(out, member_));
    for (int other = 1; other <= members(); ++other)
      if (other != member_) take(other, Step::sums, range(out, other));
  }

  /// The elements that the member adds up.
  Tensors range(const FlatTensors& of, int member) const {
    if (members() == 2) return of.range(0, of.elements());
    const Part part = part_of(of.elements(), member - 1, members());
    return of.range(part.begin, part.end);
  }

  Tensors finish(Combine how) {
    const at::NoGradGuard no_grad;
    Tensors all;
    for (const at::Tensor& tensor : mine_->tensors())
      all.push_back(tensor.defined() ? at::empty_like(tensor) : at::Tensor());
    const FlatTensors out(all);
    combine(range(*mine_, member_), range(out, member_), how);
    if (members() > 2) gather_parts(out);
    end();
    return all;
  }

  /// Combines what the others have sent, and the member's own pieces, in the
  /// order of the replicas.
  void combine(const Tensors& own, Tensors into, Combine how) {
    std::vector<Tensors> parts;
    for (int each = 1; each <= members(); ++each)
      parts.push_back(each == member_ ? own
                                      : receive(each, Step::elements, own));
    for (std::size_t i = 0; i < into.size(); ++i) {
      Tensors each;
      for (const Tensors& list : parts) each.push_back(list.at(i));
      how(into[i], each);
    }
  }

  Link& link_to(int other) {
    return links_.at(static_cast<std::size_t>(other) - 1);
  }

  void send(int other, Step step, const Tensors& pieces) {
    send(other, step, in_one_line(pieces), mine_->layout());
  }

  void send(int other, Step step, const Tensors& pieces, std::int64_t layout) {
    Message message{.kind = MessageKind::exchange,
                    .batch = sums_,
                    .turn = layout,
                    .round = static_cast<std::int64_t>(step)};
    pack(pieces, "x", message);
    link_to(other).sender->send(std::move(message));
  }

  /// Elements from another member for these pieces, on the pieces' device.
  Tensors receive(int other, Step step, const Tensors& pieces) {
    Tensors lines = receive(other, step, mine_->layout());
    if (pieces.empty()) return lines;
    return in_pieces(on_device(lines, pieces.front().device()), pieces);
  }

  void take(int other, Step step, const Tensors& to) {
    copy(receive(other, step, to), to);
  }

  Tensors receive(int other, Step step, std::int64_t layout) {
    const std::optional<Message> message = link_to(other).receiver->receive();
    if (!message)
      throw PeerGoneError(
          "{}: replica {} has ended, and replica {} waits for it", name_, other,
          member_);
    const bool is_it = message->kind == MessageKind::exchange &&
                       message->batch == sums_ &&
                       message->round == static_cast<std::int64_t>(step);
    SLUICE_CHECK(is_it,
                 "{}: replica {} expected part {} of sum {} of replica {}",
                 name_, member_, static_cast<int>(step), sums_, other);
    SLUICE_CHECK(message->turn == layout,
                 "{}: replicas {} and {} lay out what they sum differently",
                 name_, member_, other);
    return unpack(*message, "x");
  }

  static void copy(const Tensors& from, const Tensors& to) {
    SLUICE_CHECK(from.size() == to.size(), "{} pieces for {}", from.size(),
                 to.size());
    for (std::size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
  }

  std::vector<Link> links_;
  const int member_;
  const std::string name_;
  std::optional<FlatTensors> mine_;  // that is being summed
  at::Tensor own_;                   // of a swap, to itself
  std::int64_t sums_ = 0;            // that are over, and swaps
  /// Of what is shared, from the start to the finish; else all are.
  std::optional<std::vector<int>> awaited_;
};

}  // namespace

std::unique_ptr<Group> links_group(std::vector<Link> links, int member,
                                   std::string name) {
  return std::make_unique<LinksGroup>(std::move(links), member,
                                      std::move(name));
}

}  // namespace sluice
