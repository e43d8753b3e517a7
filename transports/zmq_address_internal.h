// Addresses of hubs as people write them, judged before ZeroMQ sees them. Pure functions, any
// thread. Internal to transports/ and apps/.
#pragma once

#include <string>

namespace thinwire {

struct HostPort {
  std::string host;  // a name, an IPv4 address, an IPv6 address without brackets, or "*"
  int port = 0;      // 0: the system chooses (listening only)

  bool operator==(const HostPort&) const = default;
};

// Dialling needs a host and a port; listening may leave either to the system with '*'.
enum class AddressUse { dial, listen };

// "tcp://host:port", "tcp://[::1]:port"; IPv6 literals are also taken without brackets, where what
// follows the last colon is the port. Throws UsageError that names the address and what to write.
HostPort parse_address(const std::string& address, AddressUse use);

// The same without "tcp://"; a lone port or ":port" is one of the loopback interface.
HostPort parse_host_port(const std::string& text, AddressUse use);

// As ZeroMQ takes it: brackets around IPv6.
std::string to_text(const HostPort& address);
std::string normal_address(const std::string& address, AddressUse use);

// What the system says about a peer, as people know it: "::ffff:10.0.0.7" is 10.0.0.7.
std::string plain_ip(const std::string& ip);

// Can nobody but this machine reach it? 127.0.0.0/8, ::1, ::ffff:127.x.x.x and "localhost"; other
// names are not looked up and count as reachable. Throws as parse_address does.
bool is_loopback(const std::string& address);
bool is_loopback(const HostPort& address);

// 169.254.0.0/16 and fe80::/10: good on one cable alone. IPv6 has the same ones on every interface,
// and needs a zone to say which is meant.
bool is_link_local(const HostPort& address);

}  // namespace thinwire
