#include "experiments/config/manual/resume_classes.h"

#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>

#include "experiments/config/manual/catalog.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

constexpr auto kFree = ResumeEffect::free;
constexpr auto kAnew = ResumeEffect::anew;
constexpr auto kRefused = ResumeEffect::refused;

constexpr std::string_view kOtherEpochs =
    "an epoch would have another number of batches, and turns, evaluations and "
    "schedules are counted in these";
constexpr std::string_view kOtherSplit =
    "the validation split would be drawn from samples that were trained on";
constexpr std::string_view kLastBits = "the last bits may change";
constexpr std::string_view kFilesCompared =
    "the content of the files is what is compared";

/// Classes by path; one that ends with a table holds for all keys below it.
constexpr std::array kResumeRows = {
    ResumeClass{"name", kFree},
    ResumeClass{"engine", kFree},
    ResumeClass{"transport", kFree},
    ResumeClass{"cuda_ipc", kFree},
    ResumeClass{"mps", kFree},
    ResumeClass{"graphs", kFree},
    ResumeClass{"checkpoint_layers", kFree},
    ResumeClass{"threads", kFree, kLastBits},
    ResumeClass{"log_every", kFree},
    ResumeClass{"slack", kFree},
    ResumeClass{"barrier", kFree},
    ResumeClass{"timeout", kFree},
    ResumeClass{"reconnect", kFree},
    ResumeClass{"allocator", kFree},
    ResumeClass{"on_failure", kFree},
    ResumeClass{"restarts", kFree},
    ResumeClass{"on_nan", kFree},
    ResumeClass{"equal_builds", kFree},
    ResumeClass{"max_staleness", kFree},
    ResumeClass{"forecast", kFree},
    ResumeClass{"logger", kFree},
    ResumeClass{"trace", kFree},
    ResumeClass{"hashes", kFree},
    ResumeClass{"gradient_norms", kFree},
    ResumeClass{"probe", kFree},
    ResumeClass{"checkpoint", kFree},
    ResumeClass{"initial_weights", kFree,
                "a run that goes on doesn't read them"},
    ResumeClass{"fine_tune", kRefused,
                "a checkpoint has other adapters, or other weights that train"},
    ResumeClass{"seed", kRefused,
                "it decides the order of the samples, so which of an epoch are "
                "still to come"},
    ResumeClass{"batch_size", kRefused, kOtherEpochs},
    ResumeClass{"drop_last", kRefused, kOtherEpochs},
    ResumeClass{"limit", kAnew},
    ResumeClass{"limit.train", kRefused, kOtherEpochs},
    ResumeClass{"limit.evaluation", kAnew,
                "earlier evaluations were of other samples"},
    ResumeClass{"masks", kAnew},
    ResumeClass{"blocks", kAnew, "the model is cut in other places"},
    ResumeClass{"device", kAnew, kLastBits},
    ResumeClass{"deterministic", kAnew, kLastBits},
    ResumeClass{"tf32", kAnew, kLastBits},
    ResumeClass{"cudnn_benchmark", kAnew, kLastBits},
    ResumeClass{"epochs", kAnew, "schedules that end with the run end there"},
    ResumeClass{"turns", kAnew, "schedules that end with the run end there"},
    ResumeClass{"turns_per_epoch", kAnew, "schedules are counted by it"},
    ResumeClass{"evaluate_every", kAnew,
                "early_stop and timetables count evaluations"},
    ResumeClass{"early_stop", kAnew, "earlier evaluations count, too"},
    ResumeClass{"drain", kAnew},
    ResumeClass{"accumulate", kAnew},
    ResumeClass{"delay", kAnew},
    ResumeClass{"pipeline", kAnew},
    ResumeClass{"pipeline.order", kFree},
    ResumeClass{"pipeline.flush", kFree},
    ResumeClass{"pipeline.recompute", kFree},
    ResumeClass{"pipeline.executors", kFree},
    ResumeClass{"replicas", kAnew},
    ResumeClass{"replicas.deal", kRefused,
                "schedule.txt counts the batches in another way"},
    ResumeClass{"precision", kAnew},
    ResumeClass{"memory_format", kAnew, kLastBits},
    ResumeClass{"schedule", kAnew},
    ResumeClass{"in_flight", kAnew},
    ResumeClass{"priority", kAnew},
    ResumeClass{"virtual", kAnew,
                "the clock takes other times; blocks that run free, another "
                "order"},
    ResumeClass{"timetable", kAnew},
    ResumeClass{"boundary", kAnew},
    ResumeClass{"optimizer", kAnew},
    ResumeClass{"loss", kAnew, "earlier losses are another measure"},
    ResumeClass{"plugins", kAnew, "the code of a plug-in is another"},
    ResumeClass{"model", kRefused, "it would be another network"},
    ResumeClass{"model.dropout", kAnew},
    ResumeClass{"model.file", kFree, kFilesCompared},
    ResumeClass{"model.trust", kFree},
    ResumeClass{"model.sha256", kAnew, "the file is taken as it is now"},
    ResumeClass{"model.trust", kFree, "it says what the file may do"},
    ResumeClass{"data", kRefused,
                "what was trained before was made of other samples"},
    ResumeClass{"data.validation", kRefused, kOtherSplit},
    ResumeClass{"data.validation_seed", kRefused, kOtherSplit},
    ResumeClass{"data.root", kFree, kFilesCompared},
    ResumeClass{"data.prefetch", kFree},
    ResumeClass{"data.workers", kFree},
    ResumeClass{"data.on_device", kFree},
    ResumeClass{"data.cache", kFree},
    ResumeClass{"data.tokenizer_model", kFree, kFilesCompared},
    ResumeClass{"data.evaluate_training", kAnew,
                "earlier training_loss was of other samples"},
    ResumeClass{"data.augment", kAnew},
    ResumeClass{"data.mixup", kAnew},
    ResumeClass{"data.teacher", kAnew},
    ResumeClass{"data.teacher_temperature", kAnew},
    ResumeClass{"data.teacher_weight", kAnew},
    ResumeClass{"data.assist", kAnew},
    ResumeClass{"data.echo", kRefused,
                "it decides which samples of an epoch are still to come"},
};

/// Keys of [data] whose texts are paths.
constexpr std::array<std::string_view, 5> kFilesOfData = {
    "data.folder", "data.file", "data.train", "data.test", "data.validation"};
constexpr ResumeClass kFileOfData = {"data", ResumeEffect::free,
                                     kFilesCompared};

bool is_at_or_below(std::string_view path, std::string_view table) {
  if (!path.starts_with(table)) return false;
  return path.size() == table.size() || path[table.size()] == '.' ||
         path[table.size()] == '[';
}

}  // namespace

std::string_view name_of(ResumeEffect on_resume) {
  switch (on_resume) {
    case ResumeEffect::free:
      return "free";
    case ResumeEffect::anew:
      return "anew";
    case ResumeEffect::refused:
      return "refused";
  }
  throw InternalError("a class of keys without a name");
}

const ResumeClass* find_resume_class(std::string_view path, bool is_text) {
  const std::string of_all = key_of_all(std::string(path));
  if (is_text && std::find(kFilesOfData.begin(), kFilesOfData.end(), of_all) !=
                     kFilesOfData.end())
    return &kFileOfData;
  const ResumeClass* found = nullptr;
  for (const ResumeClass& row : kResumeRows)
    if (is_at_or_below(of_all, row.path) &&
        (found == nullptr || row.path.size() > found->path.size()))
      found = &row;
  return found;
}

std::vector<KeyDoc> with_resume_classes(std::vector<KeyDoc> docs) {
  for (KeyDoc& doc : docs) {
    const bool is_text = doc.type.find("string") != std::string::npos ||
                         doc.type.find("text") != std::string::npos;
    const ResumeClass* row = find_resume_class(doc.path, is_text);
    if (row == nullptr) continue;
    doc.limits += fmt::format("{}resume: {}", doc.limits.empty() ? "" : "; ",
                              name_of(row->on_resume));
  }
  return docs;
}

std::string_view resume_classes_text() {
  return R"(
What `run --resume RUN key=value` may change. resume: free, no number of the run
changes; anew, numbers are others from that turn on, and a line says so; refused,
what was trained and counted before would mean another thing: begin a run with
initial_weights = 'RUN/checkpoints/turn-N' instead.
)";
}

}  // namespace sluice
