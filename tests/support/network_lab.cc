#include "tests/support/network_lab.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "thinwire/error.h"

namespace thinwire::test {
namespace {

constexpr double kReady = 10.0;  // s

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

std::string NetworkLab::missing() {
  try {
    const NetSpace space;
  } catch (const std::exception& error) {
    return error.what();
  }
  const Descriptor tun(::open("/dev/net/tun", O_RDWR | O_CLOEXEC));
  return tun ? "" : std::string("cannot open /dev/net/tun: ") + std::strerror(errno);
}

NetworkLab::NetworkLab(int sites, const LabLink& link) : link_(link) {
  std::string pattern =
      (std::filesystem::temp_directory_path() / "thinwire_network_XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw Error("cannot make a directory " + pattern);
  dir_ = pattern;
  for (int site = 0; site < sites; ++site) {
    sites_.push_back(std::make_unique<Site>());
    plug(site);
  }
}

NetworkLab::~NetworkLab() {
  sites_.clear();
  std::error_code none;
  std::filesystem::remove_all(dir_, none);
}

std::string NetworkLab::hub_ip(int site) const { return "10.77." + std::to_string(site) + ".1"; }

void NetworkLab::freeze(int site) { sites_.at(site)->link->signal(SIGSTOP); }
void NetworkLab::thaw(int site) { sites_.at(site)->link->signal(SIGCONT); }
void NetworkLab::drop(int site) { sites_.at(site)->link->signal(SIGUSR1); }
void NetworkLab::pass(int site) { sites_.at(site)->link->signal(SIGUSR2); }
void NetworkLab::unplug(int site) { sites_.at(site)->link.reset(); }

void NetworkLab::plug(int site) {
  const std::string number = std::to_string(site);
  const std::string out = dir_ + "/" + number + ".out";
  const std::string err = dir_ + "/" + number + ".err";
  std::filesystem::remove(out);
  const auto text = [](double value) { return std::to_string(value); };
  Site& one = *sites_.at(site);
  one.link = std::make_unique<Child>(ChildOptions{
      .words = {SLOW_LINK_PROGRAM, "--delay-ms", text(link_.round_trip_ms / 2.0), "--rate-mbit",
                text(link_.rate_mbit), "--queue-ms", text(link_.queue_ms), "--loss",
                text(link_.loss), "--seed", std::to_string(site + 1), "--name", "far" + number,
                "--hosts", "10.77." + number + ".1,10.77." + number + ".2", hub_.path(),
                one.space.path()},
      .output = out,
      .errors = err});
  const bool ready =
      wait_until(kReady, [&] { return text_of(out) == "ready\n" || !one.link->running(); });
  if (!ready || !one.link->running()) throw Error("no link: " + text_of(err));
}

}  // namespace thinwire::test
