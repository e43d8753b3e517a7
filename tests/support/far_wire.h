// How the sites of a run reach its hub: straight over the loopback interface, or over links that
// can be made bad. One thread at a time.
#pragma once

#include <memory>
#include <string>

#include "tests/support/network_lab.h"

namespace thinwire::test {

class FarWire {
 public:
  virtual ~FarWire() = default;
  virtual std::string what() const = 0;              // for results
  virtual bool needs_keys() const { return false; }  // the hub can be reached from elsewhere
  virtual std::string listen() const = 0;            // for the hub's --listen
  virtual std::string hub(int site) const = 0;       // for that site's --hub
  virtual int hub_space() const { return -1; }       // network namespace to run in
  virtual int site_space(int) const { return -1; }
  virtual void freeze(int site) = 0;  // what is under way waits
  virtual void thaw(int site) = 0;
  virtual void drop(int site) = 0;  // what is under way vanishes
  virtual void pass(int site) = 0;
};

// Without faults.
std::unique_ptr<FarWire> direct_wire();
// A NetworkLab where it can be made; else TCP proxies of this process, which says so on standard
// error. They lose nothing: what should vanish waits.
std::unique_ptr<FarWire> slow_wire(int sites, const LabLink& link);
std::unique_ptr<FarWire> proxy_wire(int sites, const LabLink& link);

int free_port();  // of 127.0.0.1, a moment ago

}  // namespace thinwire::test
