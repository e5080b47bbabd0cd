#include "lib/workers/coded_boundary.h"

#include <utility>

#include <fmt/format.h>

namespace sluice {
namespace {

std::unique_ptr<CodecEnd> end_of(const std::shared_ptr<const Codec>& codec,
                                 const CodecSite& site, bool sends) {
  if (codec == nullptr) return nullptr;
  return sends ? codec->sender(site) : codec->receiver(site);
}

void save_end(const CodecEnd* end, const std::string& name, NamedTensors& all) {
  if (end == nullptr) return;
  for (const auto& [own, tensor] : end->state())
    all.emplace_back(name + own, tensor);
}

void restore_end(CodecEnd* end, const std::string& name,
                 const NamedTensors& state) {
  if (end == nullptr) return;
  NamedTensors own;
  for (const auto& [full, tensor] : state)
    if (full.starts_with(name))
      own.emplace_back(full.substr(name.size()), tensor);
  end->restore(own);
}

}  // namespace

CodedBoundary::CodedBoundary(BoundaryCodecs codecs, const CodecSite& site,
                             BoundarySide side)
    : codecs_(std::move(codecs)),
      layer_(site.layer),
      side_(side),
      up_(end_of(codecs_.up, site, side == BoundarySide::below)),
      down_(end_of(codecs_.down, site, side == BoundarySide::above)) {}

Coding CodedBoundary::activation(std::int64_t slot, at::Tensor samples) const {
  return {codecs_.up.get(), up_.get(), slot, std::move(samples)};
}

Coding CodedBoundary::gradient(std::int64_t slot) const {
  return {codecs_.down.get(), down_.get(), slot, {}};
}

std::string CodedBoundary::name_of(std::string_view direction,
                                   bool sends) const {
  return fmt::format("codecs.{}.{}.{}.", layer_, direction,
                     sends ? "sender" : "receiver");
}

void CodedBoundary::save(NamedTensors& all) const {
  save_end(up_.get(), name_of("up", side_ == BoundarySide::below), all);
  save_end(down_.get(), name_of("down", side_ == BoundarySide::above), all);
}

void CodedBoundary::restore(const NamedTensors& state) {
  restore_end(up_.get(), name_of("up", side_ == BoundarySide::below), state);
  restore_end(down_.get(), name_of("down", side_ == BoundarySide::above),
              state);
}

std::int64_t CodedBoundary::bytes() const {
  return (up_ ? up_->bytes() : 0) + (down_ ? down_->bytes() : 0);
}

}  // namespace sluice
