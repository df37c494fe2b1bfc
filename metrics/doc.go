// Package metrics reads what model servers report on /metrics: how many requests run and wait, how full the KV cache
// is, which LoRA adapters are loaded.
//
// A [Parser] knows the names that each [Engine] uses (the table is in families.go), detects whose page it reads, and
// skips everything else: a page costs little more than finding its line ends, and no allocation. It reads the
// Prometheus text format and OpenMetrics.
//
// Parsing never fails. An invalid line is skipped, and so is an impossible value, such as NaN or a negative number of
// requests. Each field of a [Snapshot] reports whether it was found, and [Parser.Missing] names the families that would
// have contained it. A page may end anywhere, because gateways truncate it: an incomplete last line is dropped, with
// the family that it may belong to, since other series of that family may be missing.
//
// # Several series of one family
//
// An engine that runs several copies of a model (data parallelism) has a series for each. It distributes requests among
// them itself, so they are one endpoint here: requests, tokens and blocks are added up. The use of the KV cache is the
// mean, which is the use of the endpoint's whole cache, since copies have caches of equal size. The maximum would
// report an endpoint as full when one copy of eight is, though the next request goes to another copy.
//
// SGLang can also report one scheduler once for each GPU that it runs on (tp_rank, pp_rank), and its queue once more
// for each priority. Those are counted once.
package metrics
