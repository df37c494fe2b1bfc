// Package doctest holds the documents to the code. Its tests compare the tables of keys, reasons and statistics with
// their sources, parse every configuration block, run the commands of the guides against a real Envoy, follow every
// link, and hold the Chinese README to the English one.
//
// After a change of configuration keys, run it with -update to rewrite the tables of keys in both READMEs.
package doctest
