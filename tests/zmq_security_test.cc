// Addresses, keys and their files, and the list of who may come in.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "thinwire/error.h"
#include "transports/zmq_address_internal.h"
#include "transports/zmq_security_internal.h"

namespace thinwire {
namespace {

namespace fs = std::filesystem;

std::string why(const std::string& address, AddressUse use = AddressUse::dial) {
  try {
    parse_address(address, use);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "taken";
}

TEST(ZmqAddress, IsReadAndNormalised) {
  EXPECT_EQ(parse_address("tcp://hub.example.org:5555", AddressUse::dial),
            (HostPort{"hub.example.org", 5555}));
  EXPECT_EQ(normal_address("tcp://10.0.0.7:65535", AddressUse::dial), "tcp://10.0.0.7:65535");
  EXPECT_EQ(normal_address("tcp://[2001:db8::7]:1", AddressUse::dial), "tcp://[2001:db8::7]:1");
  EXPECT_EQ(normal_address("tcp://2001:db8::7:5555", AddressUse::dial), "tcp://[2001:db8::7]:5555");
  EXPECT_EQ(normal_address("tcp://::1:5555", AddressUse::dial), "tcp://[::1]:5555");
  EXPECT_EQ(normal_address("tcp://[fe80::1%eth0]:5", AddressUse::dial), "tcp://[fe80::1%eth0]:5");
  EXPECT_EQ(normal_address("tcp://*:5555", AddressUse::listen), "tcp://*:5555");
  EXPECT_EQ(normal_address("tcp://127.0.0.1:0", AddressUse::listen), "tcp://127.0.0.1:*");
}

TEST(ZmqAddress, IsRefusedWithWhatToWrite) {
  EXPECT_NE(why("hub:5555").find("'hub:5555': write tcp://HOST:PORT"), std::string::npos);
  EXPECT_NE(why("udp://hub:5555").find("tcp://"), std::string::npos);
  EXPECT_NE(why("tcp://hub").find("port is missing"), std::string::npos);
  EXPECT_NE(why("tcp://:5555").find("host is missing"), std::string::npos);
  EXPECT_NE(why("tcp://hub:0").find("from 1 to 65535"), std::string::npos);
  EXPECT_NE(why("tcp://hub:65536").find("'65536'"), std::string::npos);
  EXPECT_NE(why("tcp://hub:+5").find("'+5'"), std::string::npos);
  EXPECT_NE(why("tcp://hub:5 ").find("'5 '"), std::string::npos);
  EXPECT_NE(why("tcp://[::1]5555").find("[ADDRESS]:PORT"), std::string::npos);
  EXPECT_NE(why("tcp://[::1").find("[ADDRESS]:PORT"), std::string::npos);
  EXPECT_NE(why("tcp://[127.0.0.1]:5").find("no IPv6"), std::string::npos);
  EXPECT_NE(why("tcp://::1").find("no IPv6"), std::string::npos);
  EXPECT_NE(why("tcp://1.2.3:5").find("neither"), std::string::npos);
  EXPECT_NE(why("tcp://256.0.0.1:5").find("neither"), std::string::npos);
  EXPECT_NE(why("tcp://a b:5").find("neither"), std::string::npos);
  EXPECT_NE(why("tcp://-a:5").find("neither"), std::string::npos);
  EXPECT_NE(why("tcp://*:5555").find("cannot be dialled"), std::string::npos);
  EXPECT_EQ(why("tcp://*:5555", AddressUse::listen), "taken");
}

TEST(ZmqAddress, LoopbackIsWhatNobodyElseReaches) {
  for (const char* address :
       {"tcp://127.0.0.1:1", "tcp://127.9.9.9:1", "tcp://localhost:1", "tcp://LocalHost:1",
        "tcp://[::1]:1", "tcp://::1:1", "tcp://[::ffff:127.0.0.1]:1"}) {
    EXPECT_TRUE(is_loopback(std::string(address))) << address;
  }
  for (const char* address : {"tcp://128.0.0.1:1", "tcp://0.0.0.0:1", "tcp://*:1", "tcp://[::]:1",
                              "tcp://[fe80::1%eth0]:1", "tcp://localhost.example.org:1",
                              "tcp://hub:1", "tcp://[::ffff:10.0.0.1]:1"}) {
    EXPECT_FALSE(is_loopback(std::string(address))) << address;
  }
}

TEST(ZmqAddress, ALonePortIsOneOfThisMachine) {
  EXPECT_EQ(parse_host_port("9464", AddressUse::listen), (HostPort{"127.0.0.1", 9464}));
  EXPECT_EQ(parse_host_port(":9464", AddressUse::listen), (HostPort{"127.0.0.1", 9464}));
  EXPECT_EQ(parse_host_port("*:9464", AddressUse::listen), (HostPort{"*", 9464}));
  EXPECT_EQ(parse_host_port("[::1]:9464", AddressUse::listen), (HostPort{"::1", 9464}));
  EXPECT_THROW(parse_host_port("metrics", AddressUse::listen), UsageError);
}

TEST(ZmqAddress, APeersIsShownAsPeopleKnowIt) {
  EXPECT_EQ(plain_ip("::ffff:10.0.0.7"), "10.0.0.7");
  EXPECT_EQ(plain_ip("10.0.0.7"), "10.0.0.7");
  EXPECT_EQ(plain_ip("2001:db8::7"), "2001:db8::7");
}

class ZmqKeyFile : public testing::Test {
 protected:
  ZmqKeyFile() {
    std::string pattern = (fs::temp_directory_path() / "thinwire_keys_XXXXXX").string();
    dir_ = ::mkdtemp(pattern.data());
  }
  ~ZmqKeyFile() override { fs::remove_all(dir_); }

  std::string path(const std::string& name) const { return (dir_ / name).string(); }
  std::string write(const std::string& content, fs::perms mode = fs::perms(0600)) const {
    std::ofstream(path("file"), std::ios::binary) << content;
    fs::permissions(path("file"), mode);
    return path("file");
  }
  std::string why_not(const std::string& name) const {
    try {
      read_zmq_keys(path(name));
    } catch (const Error& error) {
      return error.what();
    }
    return "read";
  }

  fs::path dir_;
};

TEST_F(ZmqKeyFile, GivesBackTheKeysAndIsForItsOwnerAlone) {
  const mode_t before = ::umask(0);  // the mode is not left to the mask
  const ZmqKeys keys = make_zmq_keys();
  write_zmq_keys(path("keys"), keys);
  ::umask(before);
  EXPECT_EQ(fs::status(path("keys")).permissions(), fs::perms(0600));
  const ZmqKeys read = read_zmq_keys(path("keys"));
  EXPECT_EQ(read.public_key, keys.public_key);
  EXPECT_EQ(read.secret_key, keys.secret_key);
}

TEST_F(ZmqKeyFile, IsNeverReplaced) {
  const std::string file = write("precious");
  EXPECT_THROW(write_zmq_keys(file, make_zmq_keys()), Error);
  std::ifstream in(file);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "precious");
  // Nor is what a link points at.
  fs::create_symlink(path("nowhere"), path("link"));
  EXPECT_THROW(write_zmq_keys(path("link"), make_zmq_keys()), Error);
  EXPECT_FALSE(fs::exists(path("nowhere")));
}

TEST_F(ZmqKeyFile, IsRefusedWithItsNameAndTheReason) {
  const ZmqKeys one = make_zmq_keys();
  const ZmqKeys two = make_zmq_keys();
  EXPECT_NE(why_not("absent").find("absent: No such file"), std::string::npos);
  write(one.public_key + "\n" + one.secret_key + "\n", fs::perms(0640));
  EXPECT_NE(why_not("file").find("chmod 600 " + path("file")), std::string::npos);
  write(one.public_key + "\n" + two.secret_key + "\n");
  EXPECT_NE(why_not("file").find("do not belong together"), std::string::npos);
  EXPECT_EQ(why_not("file").find(two.secret_key), std::string::npos) << "shows a secret";
  write(one.public_key + "\n");
  EXPECT_NE(why_not("file").find("two lines"), std::string::npos);
  write("");
  EXPECT_NE(why_not("file").find("two lines"), std::string::npos);
  write(std::string(1 << 20, 'x'));
  EXPECT_NE(why_not("file").find("too long"), std::string::npos);
  fs::create_directory(path("dir"));
  EXPECT_NE(why_not("dir").find("no ordinary file"), std::string::npos);
}

TEST_F(ZmqKeyFile, KeysDiffer) {
  EXPECT_NE(make_zmq_keys().public_key, make_zmq_keys().public_key);
  EXPECT_TRUE(is_zmq_key(make_zmq_keys().secret_key));
  EXPECT_FALSE(is_zmq_key(std::string(39, 'a')));
  EXPECT_FALSE(is_zmq_key(std::string(39, 'a') + "~"));
}

TEST(ZmqAllowList, HoldsKeysNamesAndComments) {
  const std::string a(40, 'a');
  const std::string b = "b#" + std::string(38, 'b');
  const auto allowed = parse_allow_list(
      "# who may come\n\n" + a + " oslo # since May\r\n  " + b + "\n#" + a + "\n", "list");
  EXPECT_EQ(allowed, (std::vector<AllowedKey>{{a, "oslo"}, {b, ""}}));
}

TEST(ZmqAllowList, NamesTheLineThatIsNone) {
  try {
    parse_allow_list("# keys\nnot a key\n", "list");
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("list:2: ")) << error.what();
  }
}

}  // namespace
}  // namespace thinwire
