// Package doctest compares the documents with the code. Its tests compare the tables of keys, reasons and statistics
// with their sources, parse every configuration block, run the commands of the guides against a real Envoy, follow
// every link, and compare the Chinese documents with the English ones.
//
// After a change of configuration keys, run it with -update to rewrite the tables of keys in docs/configuration.md and
// docs/configuration_ZH.md.
package doctest
