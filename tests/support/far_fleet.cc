#include "tests/support/far_fleet.h"

#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "thinwire/error.h"

namespace thinwire::test {

ScratchDir::ScratchDir()
    : path_((std::filesystem::temp_directory_path() / "thinwire_far_XXXXXX").string()) {
  if (::mkdtemp(path_.data()) == nullptr) throw Error("cannot make a directory " + path_);
}

ScratchDir::~ScratchDir() {
  if (::getenv("THINWIRE_KEEP_LOGS") != nullptr) {
    std::fprintf(stderr, "logs: %s\n", path_.c_str());
    return;
  }
  std::error_code none;
  std::filesystem::remove_all(path_, none);
}

std::string ScratchDir::path(const std::string& name) const {
  return name.empty() ? path_ : path_ + "/" + name;
}

std::string file_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string site_name(int site) { return std::string("site-") + static_cast<char>('a' + site); }

namespace {

std::string make_key(const ScratchDir& dir, const std::string& name) {
  const std::string out = dir.path(name + ".public");
  Child keygen({.words = {THINWIRE_PROGRAM, "keygen", dir.path(name + ".key")}, .output = out});
  const std::string key = keygen.wait(30.0) == 0 ? file_text(out) : "";
  if (key.size() < 40) throw Error("thinwire keygen made no key for " + name);
  return key.substr(0, 40);
}

}  // namespace

std::string make_keys(const ScratchDir& dir, int count) {
  std::ofstream list(dir.path("sites.txt"));
  for (int site = 0; site < count; ++site) {
    list << make_key(dir, site_name(site)) << " " << site_name(site) << "\n";
  }
  return make_key(dir, "hub");
}

Fleet::Fleet(FarWire& wire, FleetOptions options)
    : wire_(wire), options_(std::move(options)), processes_(options_.sites) {
  if (wire.needs_keys()) hub_key_ = make_keys(dir_, options_.sites);
}

void Fleet::start_hub() {
  Words words{THINWIRE_PROGRAM, "hub",
              "--listen",       wire_.listen(),
              "--sites",        std::to_string(options_.sites),
              "--peer-timeout", std::to_string(options_.peer_timeout_s)};
  if (!hub_key_.empty()) {
    words.insert(words.end(), {"--keys", dir_.path("hub.key"), "--allow", dir_.path("sites.txt")});
  }
  words.insert(words.end(), options_.hub_flags.begin(), options_.hub_flags.end());
  hub_ = std::make_unique<Child>(
      ChildOptions{.words = words, .errors = dir_.path("hub.err"), .net_space = wire_.hub_space()});
}

void Fleet::kill_hub() { hub_.reset(); }

void Fleet::start_site(int site, const Words& more) {
  const std::string name = site_name(site);
  Words words{AUDITED_SITE_PROGRAM,
              "--site",
              name,
              "--hub",
              wire_.hub(site),
              "--steps",
              std::to_string(options_.steps),
              "--step-ms",
              std::to_string(options_.step_ms),
              "--method",
              options_.method,
              "--peer-timeout",
              std::to_string(options_.peer_timeout_s)};
  if (!options_.delay.empty()) words.insert(words.end(), {"--delay", options_.delay});
  if (!hub_key_.empty()) {
    words.insert(words.end(), {"--keys", dir_.path(name + ".key"), "--hub-key", hub_key_});
  }
  words.insert(words.end(), more.begin(), more.end());
  std::vector<Process>& mine = processes_.at(site);
  const std::string base = dir_.path(name + "." + std::to_string(mine.size()));
  mine.push_back({std::make_unique<Child>(ChildOptions{.words = words,
                                                       .output = base + ".out",
                                                       .errors = base + ".err",
                                                       .net_space = wire_.site_space(site)}),
                  SiteLog(base + ".out")});
  mine.back().log.name = name + (mine.size() == 1 ? "" : " again");
}

SiteLog& Fleet::log(int site) {
  SiteLog& log = processes_.at(site).back().log;
  log.update();
  return log;
}

std::string Fleet::site_errors(int site) const {
  const std::size_t last = processes_.at(site).size() - 1;
  return file_text(dir_.path(site_name(site) + "." + std::to_string(last) + ".err"));
}

bool Fleet::wait_for_step(int site, std::uint64_t step, double seconds) {
  return wait_until(seconds, [&] { return log(site).steps_done() >= step; });
}

std::vector<std::string> Fleet::wait_for_end(const std::vector<int>& sites, double seconds) {
  std::vector<std::string> faults;
  const double end = monotonic_s() + seconds;
  const SiteLog* first = nullptr;
  for (int one : sites) {
    const auto code = site(one).wait(std::max(0.0, end - monotonic_s()));
    const SiteLog& done = log(one);
    if (!code || *code != 0 || !done.end) {
      faults.push_back(site_name(one) + ": " +
                       (code ? "ended with " + std::to_string(*code) : "still runs") + " after " +
                       std::to_string(done.steps_done()) + " steps; " + site_errors(one));
      continue;
    }
    if (done.steps_done() != options_.steps) faults.push_back(site_name(one) + ": lost steps");
    if (first == nullptr) first = &done;
    if (done.end != first->end) faults.push_back(site_name(one) + ": ends with another state");
  }
  return faults;
}

std::vector<SiteLog> Fleet::logs() {
  std::vector<SiteLog> all;
  for (std::vector<Process>& processes : processes_) {
    for (Process& process : processes) {
      process.log.update();
      all.push_back(process.log);
    }
  }
  return all;
}

double Fleet::memory_mib() const {
  double sum = 0.0;
  for (const std::vector<Process>& processes : processes_) {
    if (!processes.empty()) sum += processes.back().child->memory_mib();
  }
  return sum;
}

}  // namespace thinwire::test
