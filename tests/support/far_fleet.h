// A hub and its sites as processes, their logs, and the audit of the whole. The sites are
// audited_site programs named site-a, site-b ...; what they print stays until this object goes
// (with THINWIRE_KEEP_LOGS in the environment, longer). One thread at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/support/child.h"
#include "tests/support/far_wire.h"
#include "tests/support/site_log.h"

namespace thinwire::test {

using Words = std::vector<std::string>;

// A directory that goes with this object.
class ScratchDir {
 public:
  ScratchDir();
  ~ScratchDir();
  ScratchDir(const ScratchDir&) = delete;
  ScratchDir& operator=(const ScratchDir&) = delete;
  std::string path(const std::string& name = "") const;

 private:
  std::string path_;
};

std::string file_text(const std::string& path);

// `count` key pairs DIR/site-a.key ... and DIR/hub.key, and the hub's list DIR/sites.txt, all made
// by `thinwire keygen`; gives the hub's public key.
std::string make_keys(const ScratchDir& dir, int count);

std::string site_name(int site);

struct FleetOptions {
  int sites = 4;
  std::uint64_t steps = 100;
  int step_ms = 10;
  double peer_timeout_s = 1.0;
  std::string method = "distro";
  std::string delay = "1";
  Words hub_flags = {};  // on top; of `thinwire hub`
};

class Fleet {
 public:
  Fleet(FarWire& wire, FleetOptions options);  // nothing runs yet

  void start_hub();
  void kill_hub();
  Child& hub() { return *hub_; }
  std::string hub_log() const { return file_text(dir_.path("hub.err")); }

  void start_site(int site, const Words& more = {});  // a new process of that site
  void start_sites() {
    for (int site = 0; site < options_.sites; ++site) start_site(site);
  }
  Child& site(int site) { return *processes_.at(site).back().child; }
  SiteLog& log(int site);  // of its latest process, up to date
  std::string site_errors(int site) const;

  bool wait_for_step(int site, std::uint64_t step, double seconds);
  // Of the latest processes of these sites: anything but an orderly end with all steps done and
  // equal states, one line each.
  std::vector<std::string> wait_for_end(const std::vector<int>& sites, double seconds);
  // Of all processes that ever ran, up to date.
  std::vector<SiteLog> logs();
  double memory_mib() const;  // of all sites that run

 private:
  struct Process {
    std::unique_ptr<Child> child;
    SiteLog log;
  };

  FarWire& wire_;
  const FleetOptions options_;
  ScratchDir dir_;
  std::string hub_key_;
  std::unique_ptr<Child> hub_;
  std::vector<std::vector<Process>> processes_;  // by site, oldest first
};

}  // namespace thinwire::test
