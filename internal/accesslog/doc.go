// Package accesslog reads the gateway's access log with the plugin's line about each request in it: as JSON objects,
// one a line, with the keys of the shipped formats, or as the lines of the shipped text format.
package accesslog
