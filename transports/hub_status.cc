// What people and monitors see of a hub; docs/far_link.md lists the keys and names.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "transports/hub_body_internal.h"

namespace thinwire::hub {
namespace {

// Text from outside inside quotes; bytes that are not printable ASCII are escaped one by one.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (byte < 0x20 || byte >= 0x7f) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", byte);
      out += escape;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string field(const std::string& name, const std::string& value) {
  return "\"" + name + "\":" + value;
}

std::string number(std::uint64_t value) { return std::to_string(value); }

std::string seconds(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", std::isfinite(value) ? value : 0.0);
  return text;
}

std::string boolean(bool value) { return value ? "true" : "false"; }

std::uint64_t lag(const Site& site, std::uint64_t first_open) {
  return first_open > site.step ? first_open - site.step : 0;
}

std::string state_of(const Site& site) {
  if (site.takeover) return "taking over";
  if (site.awaited) return "in";
  if (site.active) return "catching up";
  if (site.left) return "left";
  return site.number == kNoNumber ? "waits" : "gone";
}

class Metrics {
 public:
  void declare(const std::string& name, const std::string& type, const std::string& help) {
    name_ = "thinwire_hub_" + name;
    text_ += "# HELP " + name_ + " " + help + "\n# TYPE " + name_ + " " + type + "\n";
  }
  // `labels` as they are written between braces; may be empty.
  void sample(const std::string& labels, std::uint64_t value) {
    text_ += name_ + (labels.empty() ? "" : "{" + labels + "}") + " " + number(value) + "\n";
  }
  std::string take() { return std::move(text_); }

 private:
  std::string name_;
  std::string text_;
};

// Prometheus knows fewer escapes than JSON; site names need none, reasons get plain bytes.
std::string label(const std::string& name, const std::string& value) {
  std::string clean;
  for (const char c : value) clean += c < ' ' || c > '~' || c == '"' || c == '\\' ? '?' : c;
  return name + "=\"" + clean + "\"";
}

}  // namespace

std::string Core::Body::status_json(double now) const {
  const std::uint64_t first = first_open();
  std::string sites;
  for (const auto& [name, site] : sites_) {
    sites += sites.empty() ? "{" : ",{";
    sites += field("name", quoted(name)) + "," +
             field("number", site.number == kNoNumber ? "null" : number(site.number)) + "," +
             field("active", boolean(site.active)) + "," + field("state", quoted(state_of(site))) +
             "," + field("step", number(site.step)) + "," + field("lag", number(lag(site, first))) +
             "," + field("bytes_up", number(site.bytes_up)) + "," +
             field("bytes_down", number(site.bytes_down)) + "," +
             field("last_seen_s", seconds(std::max(0.0, now - site.last_seen))) + "," +
             field("left_out", number(site.left_out)) + "," +
             field("address", quoted(address(site.peer))) + "}";
  }
  std::string refused;
  for (const auto& [reason, count] : refused_)
    refused += (refused.empty() ? "" : ",") + quoted(reason) + ":" + number(count);
  const bool still = begun_ && !enough();
  return "{" + field("run", quoted(options_.run)) + "," + field("hub", number(id_)) + "," +
         field("epoch", number(epoch_)) + "," + field("begun", boolean(begun_)) + "," +
         field("places", number(static_cast<std::uint64_t>(options_.sites))) + "," +
         field("stands_still", boolean(still)) + "," + field("first_open_round", number(first)) +
         "," + field("rounds_closed", number(rounds_closed_)) + "," +
         field("closed_by_deadline", number(closed_by_deadline_)) + "," +
         field("sites", "[" + sites + "]") + "," + field("refused", "{" + refused + "}") + "}";
}

std::string Core::Body::metrics_text() const {
  Metrics out;
  out.declare("rounds_closed_total", "counter", "Rounds this hub has closed.");
  out.sample("", rounds_closed_);
  out.declare("rounds_by_deadline_total", "counter", "Rounds closed without an active site.");
  out.sample("", closed_by_deadline_);
  out.declare("epoch", "gauge", "Version of the membership.");
  out.sample("", epoch_);
  out.declare("sites_active", "gauge", "Sites that rounds wait for.");
  out.sample("", awaited_sites());
  out.declare("refused_total", "counter", "Messages and frames that were not used.");
  for (const auto& [reason, count] : refused_) out.sample(label("reason", reason), count);
  out.declare("site_bytes_total", "counter", "Bytes of messages from (up) and to (down) a site.");
  for (const auto& [name, site] : sites_) {
    out.sample(label("site", name) + "," + label("direction", "up"), site.bytes_up);
    out.sample(label("site", name) + "," + label("direction", "down"), site.bytes_down);
  }
  out.declare("site_lag_rounds", "gauge", "Rounds that a site is behind the first open one.");
  const std::uint64_t first = first_open();
  for (const auto& [name, site] : sites_) out.sample(label("site", name), lag(site, first));
  return out.take();
}

}  // namespace thinwire::hub
