// Package metrics reads what model servers say about themselves on /metrics: how many requests run and wait, how full the KV
// cache is, which LoRA adapters are loaded.
//
// A [Parser] knows the names that each [Engine] uses (families.go has them in one table), finds out by itself whose text it
// reads, and looks for nothing else: a text costs little more than finding the ends of its lines, and no memory. It reads
// the Prometheus text format and OpenMetrics.
//
// It never fails. A line that it cannot make sense of is left out, and so is a value that cannot be true, such as a negative
// number of requests or NaN. What is then not there, or was never sent, is not there in the [Load]: each field says whether it
// was found, and [Parser.Missing] names the families that would have held it. A text may end anywhere, because gateways cut it:
// a last line without its end is left out, with the family that it may belong to, of which there may have been more.
//
// # Several series of one family
//
// An engine that runs several copies of a model (data parallelism) has a series for each. It places requests among them
// itself, so they are one endpoint here: requests, tokens and blocks are added up. The share of the KV cache in use is their
// mean, which is the share of the endpoint's whole cache, since copies have caches of one size; the greatest would call an
// endpoint full when one copy of eight is, though the next request goes to another.
//
// SGLang can also report the same scheduler once for each GPU that it runs on (tp_rank, pp_rank), and its queue once more for
// each priority. Those are counted once.
package metrics
