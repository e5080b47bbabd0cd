#include "experiments/data/files/token_shards.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "lib/base/error.h"

namespace sluice {
namespace {

std::vector<std::unique_ptr<const TokenFile>> opened(
    std::span<const std::string> paths, TokenType type) {
  std::vector<std::unique_ptr<const TokenFile>> files;
  for (const std::string& path : paths) {
    files.push_back(std::make_unique<const TokenFile>(path, type));
    if (files.back()->size() == 0)
      throw UserError("{}: has no token; get it again, or leave it out", path);
  }
  return files;
}

}  // namespace

TokenShards::TokenShards(std::vector<std::unique_ptr<const TokenFile>> files)
    : files_(std::move(files)) {
  SLUICE_CHECK(!files_.empty(), "shards of no file");
  std::int64_t end = 0;
  for (const auto& file : files_) ends_.push_back(end += file->size());
}

TokenShards::TokenShards(std::span<const std::string> paths, TokenType type)
    : TokenShards(opened(paths, type)) {}

std::string TokenShards::name() const {
  const std::string& first = files_[0]->path();
  if (files_.size() == 1) return first;
  return fmt::format("{} and {} more file{}", first, files_.size() - 1,
                     files_.size() == 2 ? "" : "s");
}

void TokenShards::read(std::int64_t begin, std::int64_t vocabulary,
                       std::span<std::int64_t> tokens) const {
  auto file = static_cast<std::size_t>(
      std::upper_bound(ends_.begin(), ends_.end(), begin) - ends_.begin());
  for (; !tokens.empty(); ++file) {
    SLUICE_CHECK(file < files_.size(), "{}: token {} of {}", name(), begin,
                 size());
    const std::int64_t before = file == 0 ? 0 : ends_[file - 1];
    const auto here =
        std::min(static_cast<std::size_t>(ends_[file] - begin), tokens.size());
    files_[file]->read(begin - before, vocabulary, tokens.first(here));
    tokens = tokens.subspan(here);
    begin = ends_[file];
  }
}

}  // namespace sluice
