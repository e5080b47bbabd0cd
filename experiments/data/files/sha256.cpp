#include "experiments/data/files/sha256.h"

#include <array>
#include <cstddef>
#include <fstream>
#include <memory>
#include <vector>

#include <openssl/evp.h>

#include "lib/base/error.h"

namespace sluice {
namespace {

constexpr std::size_t kHashedBytes = std::size_t{1} << 20;  // at once

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new()) {
    SLUICE_CHECK(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(),
                                               nullptr) == 1,
                 "no SHA-256 in this OpenSSL");
  }

  void add(const char* bytes, std::size_t count) {
    EVP_DigestUpdate(context_.get(), bytes, count);
  }

  std::string text() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> sum = {};
    unsigned length = 0;
    EVP_DigestFinal_ex(context_.get(), sum.data(), &length);
    std::string text;
    for (unsigned i = 0; i < length; ++i) text += fmt::format("{:02x}", sum[i]);
    return text;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, FreeContext> context_;
};

}  // namespace

std::string sha256_of_file(const std::string& path) {
  Sha256 sum;
  std::ifstream file(path, std::ios::binary);
  std::vector<char> chunk(kHashedBytes);
  while (file) {
    file.read(chunk.data(), static_cast<std::streamsize>(chunk.size()));
    sum.add(chunk.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (!file.eof()) throw UserError("{}: can't be read", path);
  return sum.text();
}

std::string sha256_of(std::string_view bytes) {
  Sha256 sum;
  sum.add(bytes.data(), bytes.size());
  return sum.text();
}

}  // namespace sluice
