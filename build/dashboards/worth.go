package main

var worthRow = row{"Is it worth it?", []panel{
	{
		title: "Prefill saved, in servers", unit: "short",
		needs: "servers report cached tokens, and enough streams were seen to learn how fast they prefill",
		ask: "How much computing of prompts do caches save, in seconds of prefill per second? Some of that " +
			"least_request would save by chance.",
		normal:  "1 is a whole server that need not be there.",
		act:     "Near 0 with conversations: look at the dashboard of prefix_cache.",
		page:    "docs/gains.md#saved-prefill",
		queries: []query{{savedPrefill, "{{model}}"}},
	},
	{
		title: "Prefill saved per request", unit: "ms", needs: "prefill speed is known",
		ask:    "By how much is the time to first token shorter, on average over all requests?",
		normal: "The larger, the better.",
		act: "Compare it with the time to first token: the sum of both is what users would wait without " +
			"caches.",
		page: "docs/gains.md#saved-prefill",
		queries: []query{{share(perSecond("warmgate_saved_prefill_ms_total", ofModel, "model"),
			perSecond("warmgate_requests_total", ofModel, "model")) + whileKnown, "{{model}}"}},
	},
	{
		title: "Sent elsewhere than natively", unit: "percentunit", needs: "requests came for ten seconds",
		ask:    "For which share of requests would Envoy's least_request have chosen another server?",
		normal: "By chance it is above half already with three servers.",
		act:    "Nothing. It says that there is a difference; the panels beside it, what that is worth.",
		page:   "docs/gains.md#the-world-of-least_request",
		queries: []query{{share(
			perSecond("warmgate_native_picks_total", inCluster+`, result="elsewhere"`, "cluster"),
			perSecond("warmgate_native_picks_total", inCluster, "cluster")), "{{cluster}}"}},
	},
	{
		title: "Waiting beside a free slot", unit: "short", width: 12, needs: slots,
		ask: "How many requests wait while another server had a free slot? By what is in force, and as " +
			"least_request would have it by the same requests, which is the least it could be.",
		normal:  "Well below the line of least_request.",
		act:     "As high as least_request: the policy holds on to sessions or caches too much. See its dashboard.",
		page:    "docs/gains.md#the-world-of-least_request",
		queries: []query{{waitedBeside("warmgate_slot_wait_ms_total"), "{{cluster}} {{policy}}"}},
	},
	{
		title: "Idle while others wait", unit: "short", width: 12, needs: slots,
		ask: "How many servers stand wholly idle while a request waits in front of another? With many slots " +
			"hardly any.",
		normal:  "Well below the line of least_request.",
		act:     "The same as for waiting beside a free slot.",
		page:    "docs/gains.md#the-world-of-least_request",
		queries: []query{{waitedBeside("warmgate_idle_wait_ms_total"), "{{cluster}} {{policy}}"}},
	},
}}

// speed is that of prefill, as learned: 0 while it is not known any more. Then nothing is counted as saved, which is no
// line at 0.
const speed = "max by (cluster, model) (warmgate_prefill_tokens_per_second{" + ofModel + "}) > 0"

const whileKnown = " and on (model) (" + speed + ")"

// savedPrefill is how many seconds of prefill are saved in a second.
var savedPrefill = "1e-3 * " + perSecond("warmgate_saved_prefill_ms_total", ofModel, "model") + whileKnown

// waitedBeside is a time in milliseconds per second, as a number of those who waited.
func waitedBeside(counter string) string {
	return "1e-3 * " + perSecond(counter, inCluster, "cluster, policy")
}

const slots = "it is known how many requests servers run at once, and counts are not in Redis"

// savedRow is the same for who tunes prefix_cache.
var savedRow = row{"What caches save", []panel{
	{
		title: "Prefill saved, in servers", unit: "short", width: 12, needs: "the speed of prefill is learned",
		ask:     "How many seconds of prefill per second do caches save?",
		normal:  "1 is a whole server that need not be there.",
		act:     "Compare it before and after each change of the configuration.",
		page:    "docs/gains.md#saved-prefill",
		queries: []query{{savedPrefill, "{{model}}"}},
	},
	{
		title: "Speed of prefill", unit: "si:tok/s", width: 12, needs: "enough streams were seen to learn it",
		ask:    "How fast do servers compute prompts, as learned?",
		normal: "What the engine's own benchmark says.",
		act:    "It changes with the hardware, the model and chunked prefill.",
		page:   "docs/gains.md#saved-prefill",
		queries: []query{
			{speed, "{{model}}"},
		},
	},
}}
