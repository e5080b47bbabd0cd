// Whatever a token file holds: tokens below the vocabulary, or a UserError.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "experiments/data/files/token_file.h"
#include "lib/base/error.h"
#include "tests/fuzz/file_in_memory.h"

namespace {

void read_all(const sluice::TokenFile& tokens) {
  constexpr std::int64_t kVocabulary = 300;
  if (tokens.size() == 0) return;
  const std::int64_t largest = tokens.largest();
  if (tokens.look().largest > largest) std::abort();
  std::vector<std::int64_t> all(static_cast<std::size_t>(tokens.size()));
  tokens.read(0, kVocabulary, all);
  for (const std::int64_t token : all)
    if (token < 0 || token >= kVocabulary || token > largest) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const sluice::FileInMemory file({data, size});
  for (const std::size_t token_bytes : {2, 4}) {
    try {
      const sluice::TokenFile tokens(file.path(), token_bytes);
      if (static_cast<std::size_t>(tokens.size()) * token_bytes != size)
        std::abort();
      read_all(tokens);
    } catch (const sluice::UserError&) {
      continue;  // any damage may be refused
    }
  }
  for (const sluice::TokenType type :
       {sluice::TokenType{1, false}, sluice::TokenType{2, false},
        sluice::TokenType{4, true}, sluice::TokenType{8, true}}) {
    try {
      const sluice::TokenFile tokens(file.path(), type);
      const sluice::TokenForm& form = tokens.form();
      if (form.begin > size ||
          static_cast<std::size_t>(form.count) * form.type.bytes !=
              size - form.begin)
        std::abort();
      read_all(tokens);
    } catch (const sluice::UserError&) {
      continue;
    }
  }
  return 0;
}
