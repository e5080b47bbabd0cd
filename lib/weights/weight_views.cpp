#include <algorithm>

#include "lib/base/added_rows.h"
#include "lib/weights/weight_view.h"

namespace sluice {

using MadeView = std::unique_ptr<WeightView>;
MadeView make_kept_graph(const WeightViewSite& site);
MadeView make_rebuilt(const WeightViewSite& site);
MadeView make_stash(const WeightViewSite& site);
MadeView make_recompute(const WeightViewSite& site);
MadeView make_mixed(const WeightViewSite& site);
MadeView make_current(const WeightViewSite& site);
MadeView make_predict(const WeightViewSite& site);
MadeView make_double_buffer(const WeightViewSite& site);
MadeView make_double_buffer_predict(const WeightViewSite& site);
MadeView make_vertical_sync(const WeightViewSite& site);
MadeView make_extrapolate(const WeightViewSite& site);
MadeView make_rebuilt_input(const WeightViewSite& site);
MadeView make_look_ahead(const WeightViewSite& site);
void check_predict(const OptimizerOptions& optimizer);

std::span<const WeightViewRow> weight_views() {
  static constexpr WeightViewRow kRows[] = {
      {"stash",
       "those of its forward, whose graph is kept",
       {.make = make_stash}},
      {"recompute",
       "those of its forward, with the graph built anew",
       {.make = make_recompute, .forwards_again = true}},
      {"mixed",
       "the present ones, with the activations of its forward",
       {.make = make_mixed, .of_today = true}},
      {"current",
       "the present ones, after its input is forwarded again",
       {.make = make_current, .forwards_again = true, .of_today = true}},
      {"predict",
       "those that the optimizer's velocity predicted at its forward",
       {.make = make_predict, .check = check_predict}},
      {"double_buffer",
       "those before the previous update",
       {.make = make_double_buffer, .by_window = true}},
      {"vertical_sync",
       "those with which the lowest block between two cuts forwarded it, in "
       "all blocks there",
       {.make = make_vertical_sync, .of_entry = true}},
      {"extrapolate",
       "the present ones, moved back along their velocity by the updates since "
       "its "
       "forward, with the activations of its forward",
       {.make = make_extrapolate, .of_today = true}},
      {"double_buffer_predict",
       "those before the previous update, moved as the optimizer's velocity "
       "predicts that update",
       {.make = make_double_buffer_predict,
        .by_window = true,
        .check = check_predict}},
      {"rebuilt",
       "the present ones, after its input, which reversible layers don't keep, "
       "is rebuilt from their output, which comes back with the gradient",
       {.make = make_rebuilt_input,
        .forwards_again = true,
        .of_today = true,
        .rebuilds = true}},
  };
  return with_added<WeightViewKind>(kRows);
}

WeightsAtBackward weights_at_backward(std::string_view view) {
  const WeightViewRow& row = find_row(weight_views(), view, "weight view");
  return {.view = row.name,
          .forwards_again = row.make.forwards_again,
          .of_today = row.make.of_today,
          .rebuilds = row.make.rebuilds,
          .by_window = row.make.by_window,
          .of_entry = row.make.of_entry};
}

void check_weight_view(const WeightsAtBackward& weights,
                       const OptimizerOptions& optimizer) {
  const auto check =
      find_row(weight_views(), weights.view, "weight view").make.check;
  if (check != nullptr) check(optimizer);
}

bool predicts(const WeightsAtBackward& weights) {
  return find_row(weight_views(), weights.view, "weight view").make.check !=
         nullptr;
}

std::int64_t number_of(const WeightsAtBackward& weights) {
  const auto rows = weight_views();
  return std::find_if(rows.begin(), rows.end(),
                      [&](const WeightViewRow& row) {
                        return row.name == weights.view;
                      }) -
         rows.begin();
}

MadeView make_weight_view(const BlockPlan& plan, WeightViewSite site) {
  if (!plan.sees_old_weights() && site.look_ahead != 0)
    return make_look_ahead(site);
  if (!plan.sees_old_weights())
    return plan.recompute ? make_rebuilt(site) : make_kept_graph(site);
  site.weights = plan.weights;
  site.gradient_to_below = plan.gradient_to_below();
  return find_row(weight_views(), plan.weights.view, "weight view")
      .make.make(site);
}

std::int64_t WeightView::stashed_bytes(const Flight& flight) const {
  return bytes_of(flight.weights);
}

}  // namespace sluice
