#include "experiments/data/order/echo.h"

#include <variant>

namespace sluice {

void Echo::describe(Fields& fields) {
  fields.section(
      "echo", "data echoing: batches that come again before the next ones",
      [this](Fields& keys) {
        keys.key("batches", batches,
                 {.text = "batches that come in their order, and then in it "
                          "again, before the next ones",
                  .unit = "batches",
                  .min = 1,
                  .max = 1e6});
        keys.key("times", times,
                 {.text = "how often each of them comes, with the same random "
                          "changes of its samples; epochs count all of them, "
                          "so that with 2 an epoch has half of the samples "
                          "twice. 1: once",
                  .unit = "times",
                  .min = 1,
                  .max = 1000});
        if (batches > 1 && !is_on())
          keys.reject("batches",
                      "nothing comes again with times = 1: set times to 2 or "
                      "more, or leave batches out");
      });
}

Echo echo_in(const ConfigNode& resolved) {
  Echo echo;
  const ConfigNode* const data = resolved.find("data");
  const ConfigNode* const table =
      data == nullptr ? nullptr : data->find("echo");
  if (table == nullptr) return echo;
  const auto read = [&](const char* name, std::int64_t& number) {
    const ConfigNode* const node = table->find(name);
    const auto* value =
        node == nullptr ? nullptr : std::get_if<std::int64_t>(&node->value);
    if (value != nullptr) number = *value;
  };
  read("batches", echo.batches);
  read("times", echo.times);
  return echo;
}

}  // namespace sluice
