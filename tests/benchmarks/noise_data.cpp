#include "tests/benchmarks/noise_data.h"

#include <cstdint>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "lib/base/error.h"
#include "lib/base/random.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSamples = 2048;

std::string noise(std::size_t bytes, std::uint64_t values) {
  KeyedRandom random(1);
  std::string text(bytes, '\0');
  for (char& byte : text) byte = static_cast<char>(random.below(values));
  return text;
}

std::string big_endian(std::int64_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8)
    bytes += static_cast<char>(value >> shift & 0xFF);
  return bytes;
}

void write_file(const fs::path& path, const std::string& bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  if (!file) throw UserError("{}: can't be written", path.string());
}

}  // namespace

void write_noise_data(const std::string& root) {
  const fs::path folder = root;
  std::string records;
  for (std::int64_t i = 0; i < kSamples / 4; ++i)
    records += static_cast<char>(i % 10) + noise(3072, 256);
  for (int i = 1; i <= 5; ++i)
    write_file(
        folder / "cifar-10-batches-bin" / fmt::format("data_batch_{}.bin", i),
        records);
  write_file(folder / "cifar-10-batches-bin" / "test_batch.bin", records);
  for (const char* split : {"train", "t10k"}) {
    const fs::path stem = folder / "mnist" / split;
    write_file(stem.string() + "-images-idx3-ubyte",
               big_endian(0x803) + big_endian(kSamples) + big_endian(28) +
                   big_endian(28) + noise(kSamples * 784, 256));
    write_file(stem.string() + "-labels-idx1-ubyte",
               big_endian(0x801) + big_endian(kSamples) + noise(kSamples, 10));
  }
  write_file(folder / "text", noise(std::size_t{1} << 19, 65));
}

}  // namespace sluice
