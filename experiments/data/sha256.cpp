#include "experiments/data/sha256.h"

#include <array>
#include <cstddef>
#include <fstream>
#include <memory>
#include <vector>

#include <openssl/evp.h>

#include "lib/base/error.h"

namespace sluice {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

}  // namespace

std::string sha256_of_file(const std::string& path) {
  const std::unique_ptr<EVP_MD_CTX, FreeContext> context(EVP_MD_CTX_new());
  SLUICE_CHECK(
      context && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1,
      "no SHA-256 in this OpenSSL");
  std::ifstream file(path, std::ios::binary);
  std::vector<char> chunk(kChunkBytes);
  while (file) {
    file.read(chunk.data(), static_cast<std::streamsize>(chunk.size()));
    EVP_DigestUpdate(context.get(), chunk.data(),
                     static_cast<std::size_t>(file.gcount()));
  }
  if (!file.eof()) throw UserError("{}: can't be read", path);
  std::array<unsigned char, EVP_MAX_MD_SIZE> sum = {};
  unsigned length = 0;
  EVP_DigestFinal_ex(context.get(), sum.data(), &length);
  std::string text;
  for (unsigned i = 0; i < length; ++i) text += fmt::format("{:02x}", sum[i]);
  return text;
}

}  // namespace sluice
