// Package learned is what answers have shown of requests: how long prompts and answers of a model are, which first
// texts change, how long answers take, what calls that no table lists make an engine do, and who has had an answer. All
// of it is bounded, since names come from clients, and each VM learns for itself.
package learned
