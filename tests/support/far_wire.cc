#include "tests/support/far_wire.h"

#include <cstdio>
#include <random>
#include <vector>

#include "tests/support/tcp_proxy.h"

namespace thinwire::test {
namespace {

class DirectWire final : public FarWire {
 public:
  std::string what() const override { return "loopback"; }
  std::string listen() const override { return address_; }
  std::string hub(int) const override { return address_; }
  void freeze(int) override {}
  void thaw(int) override {}
  void drop(int) override {}
  void pass(int) override {}

 private:
  const std::string address_ = "tcp://127.0.0.1:" + std::to_string(free_port());
};

class LabWire final : public FarWire {
 public:
  LabWire(int sites, const LabLink& link) : lab_(sites, link) {}
  std::string what() const override { return "TUN links between network namespaces"; }
  bool needs_keys() const override { return true; }
  std::string listen() const override { return "tcp://*:5555"; }
  std::string hub(int site) const override { return "tcp://" + lab_.hub_ip(site) + ":5555"; }
  int hub_space() const override { return lab_.hub_space().file(); }
  int site_space(int site) const override { return lab_.site_space(site).file(); }
  void freeze(int site) override { lab_.freeze(site); }
  void thaw(int site) override { lab_.thaw(site); }
  void drop(int site) override { lab_.drop(site); }
  void pass(int site) override { lab_.pass(site); }

 private:
  NetworkLab lab_;
};

class ProxyWire final : public FarWire {
 public:
  ProxyWire(int sites, const LabLink& link) : port_(free_port()) {
    for (int site = 0; site < sites; ++site) {
      proxies_.push_back(std::make_unique<TcpProxy>(TcpProxy::Options{
          .port = port_, .delay_s = link.round_trip_ms / 2e3, .rate = link.rate_mbit * 1e6 / 8.0}));
    }
  }
  std::string what() const override { return "TCP proxies"; }
  std::string listen() const override { return "tcp://127.0.0.1:" + std::to_string(port_); }
  std::string hub(int site) const override { return proxies_.at(site)->address(); }
  void freeze(int site) override { proxies_.at(site)->freeze(); }
  void thaw(int site) override { proxies_.at(site)->thaw(); }
  void drop(int site) override { proxies_.at(site)->freeze(); }
  void pass(int site) override { proxies_.at(site)->thaw(); }

 private:
  int port_;
  std::vector<std::unique_ptr<TcpProxy>> proxies_;
};

}  // namespace

std::unique_ptr<FarWire> direct_wire() { return std::make_unique<DirectWire>(); }

std::unique_ptr<FarWire> slow_wire(int sites, const LabLink& link) {
  const std::string missing = NetworkLab::missing();
  if (missing.empty()) return std::make_unique<LabWire>(sites, link);
  std::fprintf(stderr, "no network namespaces here (%s): TCP proxies instead\n", missing.c_str());
  return proxy_wire(sites, link);
}

std::unique_ptr<FarWire> proxy_wire(int sites, const LabLink& link) {
  return std::make_unique<ProxyWire>(sites, link);
}

// Below the ports that the system gives to those who dial: one of these could be taken while a hub
// is down, or be connected with itself by a site that dials it.
int free_port() {
  constexpr int kFirst = 20'000;
  constexpr int kPorts = 10'000;
  std::random_device random;
  for (int attempt = 0; attempt < 100; ++attempt) {
    const Descriptor file(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int port = kFirst + static_cast<int>(random() % kPorts);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const auto* generic = reinterpret_cast<const sockaddr*>(&address);
    if (::bind(file.number(), generic, sizeof address) == 0) return port;
  }
  throw Error("no port of 127.0.0.1 is free");
}

}  // namespace thinwire::test
