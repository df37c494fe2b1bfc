// Package learned is what answers have shown of requests: how long prompts and answers of a model are, which first
// texts change, how long answers take, what calls that no table lists make an engine do, and who has had an answer. All
// of it is bounded, since names come from clients, and each VM learns for itself.
//
// [Models] and [Rates] differ: loads are compared by geometric means, which withstand outliers and attacks; what is
// billed is added up by arithmetic ones, which are right in sum.
package learned
