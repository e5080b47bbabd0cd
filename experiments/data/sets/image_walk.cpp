#include "experiments/data/sets/image_walk.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <new>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <sys/stat.h>

#include "experiments/data/files/decoded_image.h"
#include "experiments/data/files/orientation.h"
#include "experiments/data/files/sha256.h"
#include "experiments/data/samples/in_parallel.h"
#include "experiments/data/sets/user_cache.h"
#include "lib/base/error.h"
#include "lib/base/files/file.h"
#include "lib/base/files/read_file.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// Bytes of a file; a picture with the most pixels takes less.
constexpr std::uint64_t kMostFileBytes = std::uint64_t{1} << 28;
/// Number of files from which on a walk's answer is kept.
constexpr std::size_t kKeptFrom = 256;
constexpr std::string_view kBeginning = "walked\t";

/// The bytes of the image as they are stored.
std::string bytes_at(const ImagePlace& place) {
  if (!place.tar) return read_file(place.path, kMostFileBytes);
  if (place.bytes > kMostFileBytes)
    throw UserError("{}: has {} bytes, more than any image", place.name(),
                    place.bytes);
  std::string bytes(place.bytes, '\0');
  place.tar->read(place.begin, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

DecodedImage decoded_from(const std::string& bytes, const ImagePlace& place,
                          bool turns, int& orientation) {
  const std::span<const std::uint8_t> file(
      reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  try {
    DecodedImage image = decode_image(file, place.name());
    orientation = orientation_of(file);
    return turns ? upright(std::move(image), orientation) : std::move(image);
  } catch (const std::bad_alloc&) {
    throw std::runtime_error(place.name() +
                             ": there is no memory to decode it");
  }
}

/// Throws what is no fault of the image.
WalkedImage walked(const ImagePlace& place) {
  WalkedImage image;
  try {
    const std::string bytes = bytes_at(place);
    image.was_read = true;
    const DecodedImage decoded =
        decoded_from(bytes, place, /*turns=*/true, image.orientation);
    image.height = decoded.height;
    image.width = decoded.width;
  } catch (const UserError& error) {
    image.damage = error.what();
  }
  return image;
}

/// Whether all damage is of the bytes, not of a moment in which they couldn't
/// be read.
bool were_all_read(std::span<const WalkedImage> images) {
  return std::all_of(images.begin(), images.end(),
                     [](const WalkedImage& image) { return image.was_read; });
}

std::size_t threads_for(std::size_t files) {
  constexpr std::size_t kFilesEach = 8;
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  return std::clamp<std::size_t>(files / kFilesEach, 1, cores);
}

/// Name of a kept answer, made of all that it follows from.
std::string key_of(std::span<const ImagePlace> places) {
  std::string text = "walk 2\n";
  struct stat status = {};
  const std::string* file = nullptr;  // of that status
  for (const ImagePlace& place : places) {
    if (file == nullptr || *file != place.file()) {
      if (::stat(place.file().c_str(), &status) != 0) return "";
      file = &place.file();
    }
    text += fmt::format("{} {} {}.{}{}\n", fs::absolute(place.file()).string(),
                        status.st_size, status.st_mtim.tv_sec,
                        status.st_mtim.tv_nsec,
                        place.tar ? fmt::format(" {}", place.begin) : "");
  }
  return sha256_of(text);
}

WalkSummary summary_of(std::span<const WalkedImage> images) {
  WalkSummary summary;
  for (std::size_t i = 0; i < images.size(); ++i) {
    if (images[i].orientation != 1) ++summary.turned;
    if (!images[i].damage.empty())
      summary.damaged.push_back(
          {static_cast<std::int64_t>(i), images[i].damage});
  }
  return summary;
}

/// "walked", a tab and the turned images; then a line for each damaged one,
/// its place, a tab and the damage.
std::string text_of(const WalkSummary& summary) {
  std::string text = fmt::format("{}{}\n", kBeginning, summary.turned);
  for (const WalkSummary::DamagedImage& each : summary.damaged)
    text += fmt::format("{}\t{}\n", each.index, each.damage);
  return text;
}

std::optional<std::int64_t> number_in(std::string_view text) {
  std::int64_t number = -1;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0)
    return std::nullopt;
  return number;
}

/// The summary in a text that text_of() made; nothing where the text is another
/// one.
std::optional<WalkSummary> summary_in(std::string_view text,
                                      std::size_t files) {
  if (!text.starts_with(kBeginning) || !text.ends_with('\n'))
    return std::nullopt;
  text.remove_prefix(kBeginning.size());
  WalkSummary summary;
  bool is_first = true;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(line.size() + 1);
    const std::size_t tab = line.find('\t');
    const auto number = number_in(line.substr(0, tab));
    if (!number || (tab == line.npos) != is_first) return std::nullopt;
    if (is_first)
      summary.turned = *number;
    else if (static_cast<std::size_t>(*number) < files)
      summary.damaged.push_back({*number, std::string(line.substr(tab + 1))});
    else
      return std::nullopt;
    is_first = false;
  }
  return summary;
}

std::optional<WalkSummary> kept_summary(const std::string& file,
                                        std::size_t files) {
  if (!fs::exists(file)) return std::nullopt;
  constexpr std::uint64_t kMostText = std::uint64_t{1} << 28;
  try {
    return summary_in(read_file(file, kMostText), files);
  } catch (const UserError&) {
    return std::nullopt;
  }
}

/// A cache that can't be written is no reason to stop.
void keep_summary(const std::string& file, const WalkSummary& summary) {
  std::error_code ignored;
  fs::create_directories(fs::path(file).parent_path(), ignored);
  try {
    write_file_atomically(
        file, [&](std::ostream& stream) { stream << text_of(summary); });
  } catch (const UserError&) {
    return;
  }
}

}  // namespace

DecodedImage decode_at(const ImagePlace& place, bool turns, int& orientation) {
  return decoded_from(bytes_at(place), place, turns, orientation);
}

std::vector<WalkedImage> walk_images(std::span<const ImagePlace> places) {
  std::vector<WalkedImage> images(places.size());
  in_parallel(
      places.size(), threads_for(places.size()),
      [&](std::size_t, std::size_t i) { images[i] = walked(places[i]); });
  return images;
}

WalkSummary summary_of_walk(std::span<const ImagePlace> places) {
  const std::string cache = user_cache();
  const std::string key =
      cache.empty() || places.size() < kKeptFrom ? "" : key_of(places);
  if (key.empty()) return summary_of(walk_images(places));
  const std::string file = fmt::format("{}/walks/{:.32}", cache, key);
  if (auto kept = kept_summary(file, places.size())) return *kept;
  const std::vector<WalkedImage> images = walk_images(places);
  WalkSummary summary = summary_of(images);
  if (were_all_read(images)) keep_summary(file, summary);
  return summary;
}

}  // namespace sluice
