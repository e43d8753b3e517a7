// The files of examples/deploy: each is read by a parser of its kind, and what it runs is accepted
// by the program.
#include <gtest/gtest.h>

#include <sstream>

#include "tests/support/near_fixture.h"

namespace thinwire::test {
namespace {

namespace fs = std::filesystem;

class CliDeploy : public CliNear {
 protected:
  static std::string example(const std::string& name) {
    return std::string(THINWIRE_SOURCE_DIR) + "/examples/deploy/" + name;
  }

  static std::string text_of(const std::string& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  static bool is_there(const std::string& program) { return fs::exists("/usr/bin/" + program); }

  Outcome call(const Words& words, const Words& environment = {}) const {
    Launch one{.words = words, .environment = environment};
    one.directory = dir_.string();
    return run_program(one);
  }

  std::string script(const std::string& name, const std::string& text) const {
    const std::string file = write(name, "#!/bin/sh\n" + text);
    fs::permissions(file, fs::perms(0755));
    return file;
  }

  // Arguments that end before anything is started.
  void expect_accepted(Words words) const {
    ASSERT_FALSE(words.empty());
    words.push_back(words[0] == "hub" ? "--print-timeouts" : "--print-config");
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
  }
};

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != text.npos; at += by.size()) {
    text.replace(at, what.size(), by);
  }
  return text;
}

TEST_F(CliDeploy, TheSlurmScriptIsSound) {
  EXPECT_EQ(call({"bash", "-n", example("slurm.sh")}).code, 0);
  if (!is_there("shellcheck")) GTEST_SKIP() << "bash alone has read it: no shellcheck here";
  const Outcome outcome = call({"shellcheck", example("slurm.sh")});
  EXPECT_EQ(outcome.code, 0) << outcome.out;
}

// With an srun that starts two tasks on this machine.
TEST_F(CliDeploy, TheSlurmScriptTrainsWithTwoTasks) {
  fs::create_directory(dir_ / "bin");
  script("bin/scontrol", "echo localhost\n");
  script("bin/srun",
         "shift\nSLURM_STEP_ID=0 SLURM_NTASKS=2 SLURM_PROCID=1 SLURM_LOCALID=1 \"$@\" &\n"
         "SLURM_STEP_ID=0 SLURM_NTASKS=2 SLURM_PROCID=0 SLURM_LOCALID=0 \"$@\" || exit\nwait $!\n");
  fs::create_symlink(THINWIRE_PROGRAM, dir_ / "bin/thinwire");
  const int job = free_port() % 20'000;
  Words words{"env", "PATH=" + path("bin") + ":/usr/bin:/bin", "bash", example("slurm.sh")};
  const Words small = one_site("distro");
  words.insert(words.end(), small.begin() + 1, small.end());
  const Outcome outcome =
      call(words, {"SLURM_JOB_ID=" + std::to_string(job), "SLURM_JOB_NODELIST=here",
                   "SLURM_SUBMIT_DIR=" + dir_.string()});
  EXPECT_EQ(hash_of(outcome), hash_of(run(one_site("distro", {"--ranks", "2"}))));
  EXPECT_TRUE(names_in("out-" + std::to_string(job)).contains("report.html"));
}

TEST_F(CliDeploy, TheKubernetesManifestsParseAndTheirArgumentsAreAccepted) {
  const std::string list = write("list.py",
                                 "import sys, yaml\n"
                                 "for one in yaml.safe_load_all(open(sys.argv[1])):\n"
                                 "    print('kind', one['kind'], one['metadata']['name'])\n"
                                 "    spec = one['spec'].get('template', {}).get('spec', {})\n"
                                 "    for c in spec.get('containers', []):\n"
                                 "        print('args', *c['args'])\n");
  if (call({"python3", "-c", "import yaml"}).code != 0) {
    GTEST_SKIP() << "no parser of YAML here (python3-yaml)";
  }
  const Outcome outcome = call({"python3", list, example("kubernetes.yaml")});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  int containers = 0;
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("args ")) continue;
    std::istringstream words(line.substr(5));
    expect_accepted(Words(std::istream_iterator<std::string>(words), {}));
    ++containers;
  }
  EXPECT_EQ(containers, 2);
  for (const char* kind :
       {"kind Deployment thinwire-hub", "kind Job thinwire-site", "kind Service thinwire-hub"}) {
    EXPECT_NE(outcome.out.find(kind), std::string::npos) << outcome.out;
  }
}

TEST_F(CliDeploy, TheSystemdUnitsVerifyAndTheirCommandsAreAccepted) {
  for (const char* unit : {"thinwire-hub.service", "thinwire-site@.service"}) {
    const std::string text = text_of(example(unit));
    const std::size_t begin = text.find("ExecStart=/usr/bin/thinwire ");
    ASSERT_NE(begin, std::string::npos) << unit;
    std::string command = replaced(text.substr(begin), "\\\n", " ");
    command = command.substr(0, command.find('\n'));
    std::istringstream words(command);
    Words all(std::istream_iterator<std::string>(words), {});
    all.erase(all.begin());
    expect_accepted(all);
    write(unit, replaced(text, "/usr/bin/thinwire", THINWIRE_PROGRAM));
  }
  if (!is_there("systemd-analyze")) GTEST_SKIP() << "no systemd-analyze here to verify them";
  fs::rename(path("thinwire-site@.service"), path("thinwire-site@oslo.service"));
  for (const char* unit : {"thinwire-hub.service", "thinwire-site@oslo.service"}) {
    const Outcome outcome = call({"systemd-analyze", "verify", "--man=no", path(unit)});
    // It also reads the machine's own units and may complain about these.
    EXPECT_EQ(outcome.err.find("thinwire-"), std::string::npos) << outcome.err;
  }
}

}  // namespace
}  // namespace thinwire::test
