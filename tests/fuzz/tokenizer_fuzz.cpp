// Whatever the model file of a tokenizer holds: tokens below its vocabulary,
// each of which stands for a text, or a UserError in one line.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "experiments/data/files/sub_words.h"
#include "experiments/data/files/tokenizer_file.h"
#include "lib/base/error.h"

namespace {

void check_error(const sluice::UserError& error) {
  // any damage may be refused
  if (std::string_view(error.what()).find('\n') != std::string_view::npos)
    std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const std::string model(reinterpret_cast<const char*>(data), size);
  try {
    sluice::check_tokenizer_file(model, "fuzz");
  } catch (const sluice::UserError& error) {
    check_error(error);
    return 0;
  }
  if (!sluice::has_sentencepiece()) return 0;
  try {
    const sluice::SubWords words(model, "fuzz");
    for (const char* text :
         {"the words of a line\n", "\xef\xac\x81\xc2\xa0 A\n",
          "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"})
      for (const std::int64_t token : words.encode(text)) {
        if (token < 0 || token >= words.vocabulary()) std::abort();
        words.text_of(token);
      }
  } catch (const sluice::UserError& error) {
    check_error(error);
  }
  return 0;
}
