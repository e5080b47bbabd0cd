#include "auxiliary_heads/input_models/input_models.h"

#include <fmt/ranges.h>

#include "lib/base/error.h"

namespace sluice {

// Each in the file of its name.
std::shared_ptr<InputModel> linear_input_model(
    const SynthesizerOptions& options, const Site& site);
std::shared_ptr<InputModel> conv_input_model(const SynthesizerOptions& options,
                                             const Site& site);

namespace {

[[noreturn]] void refuse(const Site& site, const char* why) {
  throw UserError(
      "boundary {}: no input model can predict features of shape [{}]: {}; "
      "leave out its unlock",
      site.block, fmt::join(site.features, ", "), why);
}

}  // namespace

MakeInputModel configure_input_model(Fields& options) {
  SynthesizerOptions chosen;
  chosen.describe(options);
  return [chosen](const Site& site) {
    if (site.model == nullptr) refuse(site, "the model is unknown");
    if (site.model->sample.is_text) refuse(site, "the input is a text");
    if (site.model->trains_on_pairs) refuse(site, "the input are pairs");
    if (site.features.size() == 1) return linear_input_model(chosen, site);
    if (site.features.size() != 3) refuse(site, "they are a sequence");
    if (site.model->sample.shape.size() != 3)
      refuse(site, "the input is no image");
    return conv_input_model(chosen, site);
  };
}

}  // namespace sluice
