#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

namespace sluice {

/// A folder of the test's own with run folders that were not trained.
class ReportFolder : public testing::Test {
 protected:
  ReportFolder() {
    std::string pattern =
        std::filesystem::temp_directory_path() / "sluice-report-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~ReportFolder() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const {
    return folder_ + "/" + name;
  }
  std::string write(const std::string& name, const std::string& text) const {
    const std::string file = path(name);
    std::filesystem::create_directories(
        std::filesystem::path(file).parent_path());
    std::ofstream(file, std::ios::binary) << text;
    return file;
  }
  static std::string slurp(const std::string& file) {
    std::ifstream stream(file, std::ios::binary);
    std::stringstream text;
    text << stream.rdbuf();
    return text.str();
  }

  struct FakeRun {
    std::string method = "backprop";
    int seed = 1;
    double accuracy = 0.5;  ///< at the end
    double seconds = 10;
    double virtual_seconds = 0;  ///< 0: it has no virtual clock
    bool is_done = true;
    std::string more_config = {};   ///< lines before its sections
    std::string more_metrics = {};  ///< lines before the summary
  };

  static std::string config_of(const FakeRun& run) {
    return "name = \"fake\"\nengine = \"virtual\"\nseed = " +
           std::to_string(run.seed) + "\nblocks = [\"0\", \"1\"]\n" +
           run.more_config + "[boundary.1]\npolicy = \"" + run.method + "\"\n";
  }

  /// Two evaluations, of which the second is its accuracy; two blocks.
  void make_run(const std::string& name, const FakeRun& run) const {
    std::ostringstream lines;
    const auto evaluation = [&](int turn, double accuracy) {
      lines << R"({"kind":"evaluation","turn":)" << turn
            << R"(,"epoch":1.0,"loss":)" << 2 - accuracy << R"(,"accuracy":)"
            << accuracy << R"(,"time":)" << run.seconds * turn / 20 << "}\n";
    };
    for (int turn = 0; turn < 20; ++turn)
      for (int block = 1; block <= 2; ++block) {
        lines << R"({"kind":"train","turn":)" << turn << R"(,"block":)" << block
              << R"(,"batch":)" << turn << R"(,"loss":)" << 2.0 / (turn + block)
              << R"(,"lr":0.1,"d_batch":0,"d_upd":0,"time":)" << turn << "}\n";
        if (turn == 9 && block == 2) evaluation(10, run.accuracy / 2);
      }
    evaluation(20, run.accuracy);
    lines << run.more_metrics;
    if (run.is_done) {
      for (int block = 1; block <= 2; ++block)
        lines
            << R"({"kind":"block","block":)" << block
            << R"(,"parameters":10,"weights_bytes":400,"optimizer_bytes":800,)"
            << R"("stash_bytes":0,"history_bytes":64,"queue_bytes":32,)"
            << R"("graph_bytes":5000,"peak_bytes":)" << 7000 * block << "}\n";
      lines << R"({"kind":"summary","name":"fake","method":")" << run.method
            << R"(","accuracy":)" << run.accuracy << R"(,"seconds":)"
            << run.seconds << R"(,"samples_per_second":)" << 1000 / run.seconds;
      if (run.virtual_seconds > 0)
        lines << R"(,"virtual_seconds":)" << run.virtual_seconds;
      lines << "}\n";
      write(name + "/done", "");
    }
    write(name + "/config.toml", config_of(run));
    write(name + "/metrics.jsonl", lines.str());
  }

  std::string folder_;
};

}  // namespace sluice
