// A hub's network namespace and one for each site, each reached over a slow link of its own:
// 10.77.I.1 is the hub's end of link I, 10.77.I.2 the site's. All of it is gone with this object,
// or with this process. One thread at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/support/child.h"
#include "tests/support/net_space.h"

namespace thinwire::test {

struct LabLink {
  double round_trip_ms = 0.0;
  double rate_mbit = 1000.0;  // each way
  double queue_ms = 200.0;
  double loss = 0.0;
};

class NetworkLab {
 public:
  // What is missing here for such a network; empty: nothing.
  static std::string missing();

  // Throws Error, naming what cannot be made.
  NetworkLab(int sites, const LabLink& link);
  ~NetworkLab();
  NetworkLab(const NetworkLab&) = delete;
  NetworkLab& operator=(const NetworkLab&) = delete;

  const NetSpace& hub_space() const { return hub_; }
  const NetSpace& site_space(int site) const { return sites_.at(site)->space; }
  std::string hub_ip(int site) const;  // as that site sees the hub

  void freeze(int site);  // what is under way waits
  void thaw(int site);
  void drop(int site);  // what is under way vanishes
  void pass(int site);
  void unplug(int site);  // the devices are gone
  void plug(int site);

 private:
  struct Site {
    NetSpace space;
    std::unique_ptr<Child> link;
  };

  LabLink link_;
  NetSpace hub_;
  std::vector<std::unique_ptr<Site>> sites_;
  std::string dir_;
};

}  // namespace thinwire::test
