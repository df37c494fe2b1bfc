// Package redisserver runs real Redis and Valkey servers on this machine, for tests, benchmarks and the demo.
//
// Start runs one server, StartCluster a Redis Cluster of masters. Each version that Versions lists is fetched by hash
// on first use and kept under .cache; nothing is installed. A running server can be killed, frozen and restarted on its
// port, and Do talks to it.
//
// Everything listens on 127.0.0.1, keeps nothing on disk unless configured to, and dies with the process that started
// it. Linux only, as are the binaries.
package redisserver
