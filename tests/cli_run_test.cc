#include <nlohmann/json.hpp>

#include "tests/support/cli_fixture.h"

namespace thinwire::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class CliRun : public CliTest {
 protected:
  // The summary of a run that must go well.
  Json summary(const Words& words) const {
    Words with_json = words;
    with_json.push_back("--json");
    const Outcome outcome = run(with_json);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const Json parsed = Json::parse(outcome.out, nullptr, false);
    EXPECT_TRUE(parsed.is_array()) << outcome.out;
    return parsed;
  }

  // What must not change: method, losses and hashes.
  static Json essence(const Json& summary) {
    Json all = Json::array();
    for (const Json& method : summary) {
      all.push_back({method["method"], method["settings"], method["loss"], method["seeds"],
                     method["bytes_up"], method["bytes_down"]});
    }
    return all;
  }
};

TEST_F(CliRun, PrintsHelpAndVersion) {
  for (const Words& words : {Words{"--help"}, Words{"compare", "--help"}, Words{"train", "-h"}}) {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, 0);
    EXPECT_NE(outcome.out.find("Usage"), std::string::npos);
    EXPECT_EQ(outcome.err, "");
  }
  const Outcome version = run({"--version"});
  EXPECT_EQ(version.code, 0);
  EXPECT_EQ(version.out.find('\n') + 1, version.out.size());
}

TEST_F(CliRun, ListsTheOptimizers) {
  const Outcome outcome = run({"optimizers"});
  EXPECT_EQ(outcome.code, 0);
  for (const char* part :
       {"adamw\n", "demo\n", "distro\n", "sgd\n", "momentum=0.9", "k=8",
        "12 bytes of state and 0.00522 said a parameter; whole matrices; delay"}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part;
  }
}

TEST_F(CliRun, ComparesAndWritesFourFiles) {
  const Outcome outcome = run(small_run("deep/out"));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(names_in("deep/out"),
            (std::set<std::string>{"config.toml", "curves.csv", "report.html", "summary.json"}));
  for (const char* method : {"adamw", "muon", "mural", "distro"}) {
    EXPECT_NE(outcome.out.find(method), std::string::npos);
    EXPECT_NE(read("deep/out/curves.csv").find(std::string(method) + ",1,6,"), std::string::npos);
    EXPECT_NE(read("deep/out/report.html").find(method), std::string::npos);
  }
  EXPECT_NE(outcome.err.find("report: deep/out/report.html\n"), std::string::npos);
}

TEST_F(CliRun, KeepsTheTableWithin80Columns) {
  const Words wide{"--methods", "adamw,distro:delay=1:decay=0.99:weight_decay=0.05:lr=0.01",
                   "--seeds", "2"};
  const Outcome outcome = run(small_run("out", wide));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_NE(outcome.out.find(" +- "), std::string::npos) << outcome.out;
}

TEST_F(CliRun, PrintsTheSummaryAsJson) {
  const Outcome outcome = run(small_run("out", {"--json"}));
  EXPECT_EQ(outcome.out, read("out/summary.json"));
  const Json parsed = Json::parse(outcome.out);
  ASSERT_EQ(parsed.size(), 4u);
  for (const Json& method : parsed) {
    EXPECT_EQ(method.size(), 20u);
    for (const char* key : {"loss", "loss_sd", "gap", "bytes_up", "bytes_down", "ratio_up",
                            "ratio_down", "step_s", "tokens_per_s", "peak_mb"}) {
      EXPECT_TRUE(method.at(key).is_number()) << key;
    }
    EXPECT_EQ(method["hash"].get<std::string>().size(), 16u);
    EXPECT_LT(method["loss"].get<double>(), 5.545) << "nats; log 256 is where it starts";
  }
  EXPECT_EQ(parsed[0]["gap"], 0.0);
  EXPECT_GT(parsed[2]["ratio_up"].get<double>(), 100.0);
}

TEST_F(CliRun, GivesTheSameBitsForAnyThreads) {
  // 1536 tokens a rank and step, so that there is work for three threads.
  const Words more{"--batch", "96", "--steps", "3"};
  const Json one = essence(summary(small_run("out", more)));
  for (const char* threads : {"2", "3"}) {
    Words words = small_run("out", more);
    words.insert(words.end(), {"--threads", threads});
    EXPECT_EQ(essence(summary(words)), one) << threads;
  }
}

TEST_F(CliRun, GivesTheSameBitsForTheSameSeedAndOthersForAnother) {
  const Json one = summary(small_run("out"));
  const Json other = summary(small_run("out", {"--seed", "2"}));
  const Json both = summary(small_run("out", {"--seeds", "2"}));
  EXPECT_EQ(essence(summary(small_run("out"))), essence(one));
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NE(other[i]["hash"], one[i]["hash"]);
    EXPECT_EQ(both[i]["seeds"][0], one[i]["seeds"][0]);
    EXPECT_EQ(both[i]["seeds"][1], other[i]["seeds"][0]);
  }
}

TEST_F(CliRun, GoesInEveryShape) {
  struct Shape {
    const char* sites;
    const char* ranks;
    const char* batch;
  };
  for (const Shape& shape :
       {Shape{"1", "1", "2"}, Shape{"1", "3", "3"}, Shape{"4", "1", "4"}, Shape{"2", "2", "4"}}) {
    const Json result = summary(
        small_run("out", {"--sites", shape.sites, "--ranks", shape.ranks, "--batch", shape.batch}));
    ASSERT_EQ(result.size(), 4u) << shape.sites << " x " << shape.ranks;
    for (const Json& method : result) EXPECT_LT(method["loss"].get<double>(), 5.545);
  }
}

TEST_F(CliRun, TellsEntriesOfOneMethodApart) {
  const Json result = summary(small_run("out", {"--methods", "distro, distro:delay=1", "--lr",
                                                "distro=0.004", "--lr", "distro:delay=1=0.002"}));
  ASSERT_EQ(result.size(), 2u);
  EXPECT_EQ(result[0]["method"], "distro");
  EXPECT_EQ(result[1]["method"], "distro:delay=1");
  EXPECT_EQ(result[0]["lr"], 0.004);
  EXPECT_EQ(result[1]["lr"], 0.002);
  EXPECT_NE(result[0]["hash"], result[1]["hash"]);
  EXPECT_TRUE(result[0]["gap"].is_null());
}

TEST_F(CliRun, TrainsWithOneMethod) {
  Words words = small_run("out", {"--method", "sgd", "--lr", "sgd=0.05"});
  words[0] = "train";
  const Json result = summary(words);
  ASSERT_EQ(result.size(), 1u);
  EXPECT_EQ(result[0]["settings"], "clip=0 momentum=0.9 weight_decay=0 lr=0.05");
}

TEST_F(CliRun, TrainsOneParameterAlone) {
  const Words frozen{"--set",
                     "model.frozen=wte,wpe,h.0.ln_1,h.0.ln_2,h.0.attn,h.0.mlp,ln_f.weight,lm_head"};
  Words words = small_run("out", frozen);
  const Outcome outcome = run(words);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find(" 64 parameters"), std::string::npos) << outcome.out;
}

TEST_F(CliRun, SaysThatARunDiverged) {
  Words words = small_run("out", {"--methods", "sgd", "--lr", "sgd=1e30"});
  const Outcome outcome = run(words);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("diverged"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.err.find("the gradient is not finite"), std::string::npos) << outcome.err;
  EXPECT_TRUE(Json::parse(read("out/summary.json"))[0]["loss"].is_null());
}

TEST_F(CliRun, RepeatsARunFromItsConfigFile) {
  const Json first =
      essence(summary(small_run("out", {"--methods", "adamw,distro,distro:delay=1", "--lr",
                                        "adamw=0.01", "--lr", "distro:delay=1=0.002", "--set",
                                        "optimizer.distro.k=4", "--set", "schedule.shape=wsd"})));
  const std::string config = read("out/config.toml");
  const Json again = essence(summary({"compare", "--config", "out/config.toml", "--out", "again"}));
  EXPECT_EQ(again, first);
  const Outcome printed = run({"compare", "--config", "out/config.toml", "--print-config"});
  EXPECT_EQ(printed.out, config);
  EXPECT_EQ(names_in("again").size(), 4u);
}

TEST_F(CliRun, PrintsAConfigThatReadsBackWhateverTheNames) {
  for (const char* name : {"007", "1e5", "1.50", "inf", "nan", "true", "-0", ".5", "a \"b\" \\c",
                           "one\ntwo", "2024-01-01", "0x10", "1_000", "[a]", "c=d"}) {
    const Outcome first =
        run({"compare", "--data", name, "--out", name, "--methods", "sgd", "--print-config"});
    ASSERT_EQ(first.code, 0) << first.err;
    write("c.toml", first.out);
    const Outcome second = run({"compare", "--config", "c.toml", "--print-config"});
    EXPECT_EQ(second.out, first.out) << second.err;
  }
}

TEST_F(CliRun, ReadsNumbersAndListsOfAConfigFile) {
  write("c.toml",
        "[run]\nmethods = [\"adamw\", \"distro\"]\nsteps = 0x10\nout = \"relative/out\"\n"
        "[optimizer.adamw]\nlr = 1e-3\n[optimizer.sgd]\nmomentum = 0.5\n");
  const Outcome outcome =
      run({"compare", "--config", "c.toml", "--print-config", "--set", "optimizer.distro.k=16"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* part : {"methods = \"adamw,distro\"", "steps = 16\n", "lr = 0.001\n", "k = 16\n",
                           "out = \"relative/out\""}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << outcome.out;
  }
  EXPECT_FALSE(fs::exists(path("relative")));
}

TEST_F(CliRun, LetsFlagsWinOverTheConfigFile) {
  write("c.toml", "[run]\nsteps = 5\nsites = 8\nbatch = 8\n");
  const Outcome outcome =
      run({"compare", "--config", "c.toml", "--steps", "7", "--set", "run.sites=2", "--set",
           "run.methods=distro:delay=1", "--print-config"});
  EXPECT_NE(outcome.out.find("steps = 7\n"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.out.find("sites = 2\n"), std::string::npos);
  EXPECT_NE(outcome.out.find("[optimizer.\"distro:delay=1\"]"), std::string::npos);
}

}  // namespace
}  // namespace thinwire::test
