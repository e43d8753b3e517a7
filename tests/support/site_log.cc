#include "tests/support/site_log.h"

#include <fstream>
#include <sstream>
#include <utility>

namespace thinwire::test {
namespace {

std::uint64_t from_hex(const std::string& text) { return std::stoull(text, nullptr, 16); }

using Faults = std::vector<std::string>;

std::string at(const char* what, std::uint64_t number) {
  return std::string(what) + " " + std::to_string(number);
}

// Steps or rounds; a state that is taken over before a step has the rounds before it, at most kLag
// back.
template <class Map>
void no_gaps(const SiteLog& log, const Map& map, const char* what, Faults& faults) {
  constexpr std::uint64_t kLag = 9;
  std::optional<std::uint64_t> before;
  for (const auto& [key, value] : map) {
    const auto taken = log.taken_over.upper_bound(before.value_or(key));
    const bool skips = before && key != *before + 1;
    if (skips && (taken == log.taken_over.end() || *taken > key + kLag)) {
      faults.push_back(log.name + ": " + at(what, *before) + " is followed by " +
                       std::to_string(key));
    }
    before = key;
  }
}

void own_words(const SiteLog& log, Faults& faults) {
  for (std::uint64_t round : log.owed) {
    const auto heard = log.heard.find(round);
    if (heard != log.heard.end() && !heard->second.contains(log.number)) {
      faults.push_back(log.name + ": lost what it said in " + at("round", round));
    }
  }
  for (std::uint64_t round : log.unheard) {
    const auto heard = log.heard.find(round);
    if (heard == log.heard.end()) {
      faults.push_back(log.name + ": took back " + at("round", round) + ", which it never heard");
    } else if (heard->second.contains(log.number) || !log.said.contains(round)) {
      faults.push_back(log.name + ": took back " + at("round", round) + ", which owes it nothing");
    }
  }
}

}  // namespace

void SiteLog::update() {
  std::ifstream in(path_, std::ios::binary);
  if (!in) return;
  in.seekg(read_);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  std::size_t begin = 0;
  for (std::size_t stop; (stop = text.find('\n', begin)) != std::string::npos; begin = stop + 1) {
    take(text.substr(begin, stop - begin));
  }
  read_ += static_cast<std::streamoff>(begin);
}

template <class Value>
void SiteLog::put(std::map<std::uint64_t, Value>& map, std::uint64_t key, const Value& value,
                  const char* what) {
  const auto [known, is_new] = map.emplace(key, value);
  if (is_new || (!taken_over.empty() && known->second == value)) return;
  faults.push_back(name + ": twice " + at(what, key));
}

void SiteLog::take(const std::string& line) {
  std::istringstream words(line);
  std::string what;
  std::uint64_t key = 0;
  std::string text;
  words >> what;
  if (what == "end") {
    words >> text;
    end = from_hex(text);
    return;
  }
  words >> key;
  if (what == "site") {
    number = static_cast<int>(key);
  } else if (what == "said") {
    words >> text;
    if (said.contains(key) && taken_over.empty()) faults.push_back(name + ": twice " + line);
    said[key].insert(from_hex(text));
    owed.insert(key);
  } else if (what == "heard") {
    std::map<int, std::uint64_t> updates;
    while (words >> text) {
      updates[std::stoi(text)] = from_hex(text.substr(text.find('=') + 1));
    }
    if (updates.contains(number)) owed.erase(key);
    put(heard, key, updates, "heard");
  } else if (what == "unheard") {
    if (!unheard.insert(key).second) faults.push_back(name + ": twice " + line);
    owed.erase(key);
  } else if (what == "took") {
    take_over(key);
  } else if (what == "step") {
    std::string loss;
    double time = 0.0;
    words >> loss >> text >> time;
    put(steps, key, {std::stod(loss), from_hex(text), time}, "step");
  } else if (what == "missed") {
    missed.insert(key);
  } else if (what == "diverged") {
    for (int site; words >> site;) diverged[key].insert(site);
  } else if (what == "flipped") {
    flipped = key;
  }
}

// What it had done from there on is undone.
void SiteLog::take_over(std::uint64_t step) {
  taken_over.insert(step);
  owed.clear();
  steps.erase(steps.lower_bound(step), steps.end());
}

std::vector<std::string> audit(const std::vector<SiteLog>& logs) {
  Faults faults;
  // The first who says it, and what it was.
  std::map<std::uint64_t, std::pair<const SiteLog*, std::map<int, std::uint64_t>>> rounds;
  std::map<std::uint64_t, std::pair<const SiteLog*, std::uint64_t>> states;
  std::map<std::pair<int, std::uint64_t>, std::set<std::uint64_t>> said;  // by site and round
  for (const SiteLog& log : logs) {
    faults.insert(faults.end(), log.faults.begin(), log.faults.end());
    no_gaps(log, log.heard, "round", faults);
    no_gaps(log, log.steps, "step", faults);
    own_words(log, faults);
    for (const auto& [round, updates] : log.heard) {
      const auto [first, is_new] = rounds.try_emplace(round, &log, updates);
      if (!is_new && first->second.second != updates) {
        faults.push_back(at("round", round) + " differs between " + first->second.first->name +
                         " and " + log.name);
      }
    }
    for (const auto& [step, done] : log.steps) {
      const auto [first, is_new] = states.try_emplace(step, &log, done.state);
      if (!is_new && first->second.second != done.state) {
        faults.push_back("the state after " + at("step", step) + " differs between " +
                         first->second.first->name + " and " + log.name);
      }
    }
    for (const auto& [round, updates] : log.said) {
      said[{log.number, round}].insert(updates.begin(), updates.end());
    }
  }
  std::map<std::pair<int, std::uint64_t>, std::uint64_t> applied;  // site and update: its round
  for (const auto& [round, known] : rounds) {
    for (const auto& [site, update] : known.second) {
      const std::string who = "site " + std::to_string(site) + " in " + at("round", round);
      if (!said[{site, round}].contains(update)) faults.push_back(who + " never said that");
      const auto [first, is_new] = applied.try_emplace({site, update}, round);
      if (!is_new) faults.push_back(who + " is also in " + at("round", first->second));
    }
  }
  return faults;
}

}  // namespace thinwire::test
