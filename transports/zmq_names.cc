#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <memory>
#include <thread>
#include <utility>

#include "thinwire/error.h"
#include "transports/zmq_names_internal.h"

namespace thinwire {
namespace {

std::string number_of(const sockaddr* address, socklen_t size) {
  std::array<char, NI_MAXHOST> text{};
  const int failed =
      ::getnameinfo(address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return failed == 0 ? text.data() : "";
}

std::string without_zone(const std::string& ip) { return ip.substr(0, ip.find('%')); }

std::string list(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : ", ") + text;
  return all;
}

}  // namespace

bool is_ip_address(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> parsed{};
  return ::inet_pton(AF_INET, host.c_str(), parsed.data()) == 1 ||
         ::inet_pton(AF_INET6, without_zone(host).c_str(), parsed.data()) == 1;
}

Lookup::Lookup(const HostPort& address) : host_(address.host) {
  if (is_ip_address(host_)) {
    answer_.addresses = {to_text(address)};
    done_ = true;
    return;
  }
  std::packaged_task<Answer()> task([address] { return look_up(address); });
  pending_ = task.get_future();
  std::thread(std::move(task)).detach();
}

bool Lookup::wait(std::chrono::milliseconds most) {
  if (!done_ && pending_.wait_for(most) == std::future_status::ready) {
    answer_ = pending_.get();
    done_ = true;
  }
  return done_;
}

std::string Lookup::failure() const {
  return "the host '" + host_ +
         "' cannot be resolved: " + (done_ ? answer_.why : "its name server does not answer");
}

Lookup::Answer Lookup::look_up(const HostPort& address) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(address.host.c_str(), nullptr, &wanted, &found);
  if (failed != 0) return {{}, ::gai_strerror(failed)};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  Answer answer;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    const std::string ip = number_of(one->ai_addr, one->ai_addrlen);
    if (!ip.empty()) answer.addresses.push_back(to_text({ip, address.port}));
  }
  // A hub that listens on localhost is bound to 127.0.0.1.
  if (address.host == "localhost") {
    std::stable_partition(
        answer.addresses.begin(), answer.addresses.end(),
        [](const std::string& one) { return one.find('[') == std::string::npos; });
  }
  if (answer.addresses.empty()) answer.why = "it has no address";
  return answer;
}

std::vector<std::string> own_addresses() {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(all, &::freeifaddrs);
  std::vector<std::string> addresses;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0) continue;
    const int family = one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    addresses.push_back(without_zone(number_of(one->ifa_addr, size)));
  }
  return addresses;
}

std::string own_listen_address(const std::string& listen, std::chrono::milliseconds patience) {
  const HostPort address = parse_address(listen, AddressUse::listen);
  const auto everywhere = {"*", "0.0.0.0", "::"};
  if (std::ranges::count(everywhere, address.host) > 0 || is_loopback(address) ||
      ::if_nametoindex(address.host.c_str()) != 0) {
    return listen;
  }
  Lookup lookup(address);
  if (!lookup.wait(patience) || lookup.addresses().empty()) {
    throw UsageError("--listen " + listen + ": " + lookup.failure() +
                     "; '*' listens on all addresses of this machine");
  }
  const std::vector<std::string> own = own_addresses();
  for (const std::string& one : lookup.addresses()) {
    const std::string ip = without_zone(parse_address(one, AddressUse::listen).host);
    if (std::ranges::count(own, ip) > 0 || is_loopback(one)) return one;
  }
  throw UsageError("--listen " + listen + ": '" + address.host +
                   "' is none of this machine's addresses (" + list(own) +
                   "); '*' listens on all of them");
}

std::vector<std::string> addresses_for_others(int port) {
  std::vector<std::string> addresses;
  for (const std::string& ip : own_addresses()) {
    const HostPort address{ip, port};
    if (!is_loopback(address) && !is_link_local(address)) addresses.push_back(to_text(address));
  }
  return addresses;
}

}  // namespace thinwire
