namespace thinwire::app {
const char* version() { return "0.1.0"; }
}
