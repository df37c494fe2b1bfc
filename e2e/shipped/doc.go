// Package shipped holds the tests of the files that users copy: everything in envoy-config, and the console's schema
// and the image in build.
package shipped
