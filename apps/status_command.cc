#include "apps/status_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/table.h"
#include "thinwire/error.h"
#include "transports/zmq_security_internal.h"
#include "transports/zmq_status_internal.h"

namespace thinwire::app {
namespace {

using Json = nlohmann::json;

// What comes from elsewhere may hold what a terminal would obey.
std::string plain(std::string text, std::size_t most) {
  std::ranges::replace_if(
      text, [](unsigned char c) { return std::isprint(c) == 0; }, '?');
  if (text.size() > most) text = text.substr(0, most - 2) + "..";
  return text;
}

std::string site_line(const Json& site) {
  const bool numbered = !site.at("number").is_null();  // not before the run begins
  return fmt::format(
      "{:<15}{:>4} {:<11}{:>7}{:>5}{:>10}{:>10}{:>8}{:>9}\n",
      plain(site.at("name").get<std::string>(), 15),
      numbered ? fmt::to_string(site.at("number").get<std::int64_t>()) : "-",
      plain(site.at("state").get<std::string>(), 11), site.at("step").get<std::uint64_t>(),
      site.at("lag").get<std::int64_t>(), bytes_text(site.at("bytes_up").get<double>()),
      bytes_text(site.at("bytes_down").get<double>()),
      seconds_text(site.at("last_seen_s").get<double>()), site.at("left_out").get<std::uint64_t>());
}

std::string refused_lines(const Json& refused) {
  std::string lines;
  for (const auto& [reason, count] : refused.items()) {
    lines += fmt::format("  {:<40}{:>12}\n", plain(reason, 40), count.get<std::uint64_t>());
  }
  return lines.empty() ? "" : "\nrefused\n" + lines;
}

std::string table_of(const Json& status) {
  std::string text = fmt::format(
      "run {}, epoch {}, {}\n", plain(status.at("run").get<std::string>(), 40),
      status.at("epoch").get<std::uint64_t>(),
      status.at("begun").get<bool>()
          ? fmt::format(
                "round {} is open{}", status.at("first_open_round").get<std::uint64_t>(),
                status.at("stands_still").get<bool>() ? ", too few sites: it stands still" : "")
          : fmt::format("the run has not begun, sites so far: {}", status.at("sites").size()));
  text += fmt::format("rounds closed {}, of which by deadline {}\n\n",
                      status.at("rounds_closed").get<std::uint64_t>(),
                      status.at("closed_by_deadline").get<std::uint64_t>());
  text += fmt::format("{:<15}{:>4} {:<11}{:>7}{:>5}{:>10}{:>10}{:>8}{:>9}\n", "site", "no.",
                      "state", "step", "lag", "up", "down", "seen", "left out");
  for (const Json& site : status.at("sites")) text += site_line(site);
  return text + refused_lines(status.at("refused"));
}

}  // namespace

std::string status_table(const std::string& json) {
  try {
    return table_of(Json::parse(json));
  } catch (const Json::exception& error) {
    throw Error(std::string("the hub's answer is no status: ") + error.what());
  }
}

void run_status(const StatusCommand& command) {
  ZmqStatusOptions options;
  options.hub = command.hub;
  options.hub_key = command.hub_key;
  if (!command.keys_file.empty()) options.keys = read_zmq_keys(command.keys_file);
  const std::string json = ask_zmq_status(options);
  std::cout << (command.json ? json + "\n" : status_table(json));
}

}  // namespace thinwire::app
