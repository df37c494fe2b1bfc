// Package accesslog reads the gateway's access log with what the plugin says of each request in it: as JSON objects,
// one a line, with the keys of the shipped formats, in which it is a line or an object of its own; or as the lines of
// the shipped text format.
package accesslog
