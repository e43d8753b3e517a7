#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cctype>
#include <cstring>

#include "thinwire/error.h"
#include "transports/zmq_address_internal.h"

namespace thinwire {
namespace {

constexpr std::string_view kScheme = "tcp://";
constexpr std::size_t kHostMax = 253;  // of a name in the DNS

[[noreturn]] void refuse(const std::string& text, const std::string& why) {
  throw UsageError("address '" + text + "': " + why);
}

bool is_ipv4(const std::string& host) {
  in_addr parsed{};
  return ::inet_pton(AF_INET, host.c_str(), &parsed) == 1;
}

// fe80::1%eth0: the zone says which interface a link-local address belongs to.
bool is_ipv6(const std::string& host) {
  const std::size_t percent = host.find('%');
  in6_addr parsed{};
  if (::inet_pton(AF_INET6, host.substr(0, percent).c_str(), &parsed) != 1) return false;
  if (percent == std::string::npos) return true;
  const std::string zone = host.substr(percent + 1);
  return !zone.empty() && std::ranges::all_of(zone, [](unsigned char c) {
    return std::isalnum(c) || c == '.' || c == '-' || c == '_';
  });
}

bool is_link_local_ipv6(const std::string& host) {
  in6_addr six{};
  return ::inet_pton(AF_INET6, host.substr(0, host.find('%')).c_str(), &six) == 1 &&
         IN6_IS_ADDR_LINKLOCAL(&six);
}

bool is_unspecified(const std::string& host) {
  in6_addr six{};
  if (::inet_pton(AF_INET6, host.c_str(), &six) == 1) return IN6_IS_ADDR_UNSPECIFIED(&six);
  return is_ipv4(host) && host == "0.0.0.0";
}

bool is_name(const std::string& host) {
  if (host.empty() || host.size() > kHostMax) return false;
  if (host.front() == '-' || host.front() == '.') return false;
  const bool numeric =
      std::ranges::all_of(host, [](unsigned char c) { return std::isdigit(c) || c == '.'; });
  if (numeric) return false;  // a mistyped IPv4 address
  return std::ranges::all_of(
      host, [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '.' || c == '_'; });
}

int parse_port(const std::string& whole, const std::string& text, AddressUse use) {
  if (use == AddressUse::listen && (text == "*" || text == "0")) return 0;
  const bool digits = !text.empty() && text.size() <= 5 &&
                      std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c); });
  const int port = digits ? std::stoi(text) : 0;
  if (port < 1 || port > 65535) {
    refuse(whole, "port '" + text + "' is none; give a number from 1 to 65535");
  }
  return port;
}

std::string parse_host(const std::string& whole, const std::string& host, bool brackets,
                       AddressUse use) {
  if (host == "*" && !brackets) {
    if (use == AddressUse::dial) refuse(whole, "'*' cannot be dialled; name the hub's host");
    return host;
  }
  if (host.empty()) refuse(whole, "the host is missing; write tcp://HOST:PORT");
  if (brackets || host.find(':') != std::string::npos) {
    if (!is_ipv6(host)) {
      refuse(whole, "'" + host + "' is no IPv6 address; write tcp://[ADDRESS]:PORT");
    }
    if (is_link_local_ipv6(host) && host.find('%') == std::string::npos) {
      refuse(whole, "a link-local address needs its interface, as in tcp://[" + host +
                        "%eth0]:PORT; every interface has such addresses");
    }
  }
  if (use == AddressUse::dial && is_unspecified(host)) {
    refuse(whole, "'" + host +
                      "' stands for every address and cannot be dialled; name the hub's "
                      "host");
  }
  if (brackets || host.find(':') != std::string::npos) return host;
  if (!is_ipv4(host) && !is_name(host)) {
    refuse(whole, "'" + host + "' is neither a host's name nor an IP address");
  }
  return host;
}

HostPort parse(const std::string& whole, const std::string& text, AddressUse use) {
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string::npos || end + 1 >= text.size() || text[end + 1] != ':') {
      refuse(whole, "write an IPv6 address as tcp://[ADDRESS]:PORT");
    }
    return {parse_host(whole, text.substr(1, end - 1), true, use),
            parse_port(whole, text.substr(end + 2), use)};
  }
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) refuse(whole, "the port is missing; write tcp://HOST:PORT");
  return {parse_host(whole, text.substr(0, colon), false, use),
          parse_port(whole, text.substr(colon + 1), use)};
}

}  // namespace

HostPort parse_address(const std::string& address, AddressUse use) {
  if (!address.starts_with(kScheme)) refuse(address, "write tcp://HOST:PORT");
  return parse(address, address.substr(kScheme.size()), use);
}

HostPort parse_host_port(const std::string& text, AddressUse use) {
  if (text.find(':') == std::string::npos) {
    return {"127.0.0.1", parse_port(text, text, use)};
  }
  if (text.rfind(':') == 0) return {"127.0.0.1", parse_port(text, text.substr(1), use)};
  return parse(text, text, use);
}

std::string to_text(const HostPort& address) {
  const bool ipv6 = address.host.find(':') != std::string::npos;
  const std::string port = address.port == 0 ? "*" : std::to_string(address.port);
  return std::string(kScheme) + (ipv6 ? "[" + address.host + "]" : address.host) + ":" + port;
}

std::string normal_address(const std::string& address, AddressUse use) {
  return to_text(parse_address(address, use));
}

std::string plain_ip(const std::string& ip) {
  constexpr std::string_view kMapped = "::ffff:";
  const bool mapped = ip.starts_with(kMapped) && is_ipv4(ip.substr(kMapped.size()));
  return mapped ? ip.substr(kMapped.size()) : ip;
}

bool is_loopback(const HostPort& address) {
  std::string host = address.host;
  std::ranges::transform(host, host.begin(), [](unsigned char c) { return std::tolower(c); });
  if (host == "localhost" || host == "localhost.") return true;
  in_addr four{};
  if (::inet_pton(AF_INET, host.c_str(), &four) == 1) return (ntohl(four.s_addr) >> 24) == 127;
  in6_addr six{};
  if (::inet_pton(AF_INET6, host.c_str(), &six) != 1) return false;
  if (IN6_IS_ADDR_V4MAPPED(&six)) return six.s6_addr[12] == 127;
  return IN6_IS_ADDR_LOOPBACK(&six);
}

bool is_link_local(const HostPort& address) {
  in_addr four{};
  if (::inet_pton(AF_INET, address.host.c_str(), &four) == 1) {
    return (ntohl(four.s_addr) >> 16) == 0xa9fe;
  }
  return is_link_local_ipv6(address.host);
}

bool is_loopback(const std::string& address) {
  return is_loopback(parse_address(address, AddressUse::listen));
}

}  // namespace thinwire
