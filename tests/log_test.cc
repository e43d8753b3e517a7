// What a log line says besides its text, for programs that read logs.
#include "thinwire/log.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace thinwire {
namespace {

using Json = nlohmann::json;

Json json_of(const std::string& line) { return Json::parse(json_line(LogLevel::info, line)); }

TEST(LogJson, HasTimeLevelAndText) {
  const Json json = Json::parse(json_line(LogLevel::warn, "a \"quoted\" line\n\x1b[2J"));
  EXPECT_EQ(json["level"], "warning");
  EXPECT_EQ(json["text"], "a \"quoted\" line\n\x1b[2J");
  EXPECT_EQ(json["time"].get<std::string>().size(), std::string("2026-01-31T12:34:56.789Z").size());
  EXPECT_EQ(json.size(), 3u);
}

TEST(LogJson, HasFieldsForWhatALineBeginsWith) {
  Json json = json_of("hub: round 12 closed at its deadline without site b");
  EXPECT_EQ(json["from"], "hub");
  EXPECT_EQ(json["round"], 12);
  EXPECT_FALSE(json.contains("site"));
  json = json_of("hub: site oslo says goodbye; epoch 3");
  EXPECT_EQ(json["from"], "hub");
  EXPECT_EQ(json["site"], "oslo");
  json = json_of("site a: round 7, phase 1: refused: WHY");
  EXPECT_EQ(json["from"], "a");
  EXPECT_EQ(json["site"], "a");
  EXPECT_EQ(json["round"], 7);
  EXPECT_EQ(json["phase"], 1);
  json = json_of("round 7, site 2: refused: checksum");
  EXPECT_EQ(json["round"], 7);
  EXPECT_EQ(json["site"], "2");
  EXPECT_FALSE(json.contains("from"));
}

TEST(LogJson, MakesNoFieldsUp) {
  for (const char* line :
       {"", "site ", "site: a", "round of applause", "hub:", "rounds 3", "hub: "}) {
    const Json json = json_of(line);
    for (const char* field : {"site", "round", "phase"}) EXPECT_FALSE(json.contains(field)) << line;
  }
}

}  // namespace
}  // namespace thinwire
