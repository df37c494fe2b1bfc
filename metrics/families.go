package metrics

// family is a metric family in which an engine reports a field.
type family struct {
	engine Engine
	field  Field
	name   string
	// label restricts the family to series with that label and value; "" accepts all series. With an empty value the
	// label may also be absent.
	label, value string
	// valueLabel is the label that contains the value, for families that report constants in labels.
	valueLabel string
	// adds: the value is added to that of the previous family, instead of replacing it where that is absent.
	adds bool
	// optional: the engine has dropped the name, or only some of its versions have it; it is not reported as missing.
	optional bool

	mean bool  // several series are averaged, not added up
	rank uint8 // of the families for one field, the lowest rank that is found counts
}

// families is the table of the engines' names. Of several names for one field of an engine, the first one found counts.
var families = withRanks([]family{
	{field: Started, name: "process_start_time_seconds", optional: true}, // of any process

	{engine: VLLM, field: Running, name: "vllm:num_requests_running"},
	{engine: VLLM, field: Waiting, name: "vllm:num_requests_waiting"},
	{engine: VLLM, field: Deferred, name: "vllm:num_requests_waiting_by_reason", label: "reason", value: "deferred"},
	{engine: VLLM, field: KVUse, name: "vllm:kv_cache_usage_perc"},
	{engine: VLLM, field: KVUse, name: "vllm:gpu_cache_usage_perc", optional: true}, // until 0.10
	{engine: VLLM, field: KVBlocks, name: "vllm:cache_config_info", valueLabel: "num_gpu_blocks"},
	{engine: VLLM, field: BlockTokens, name: "vllm:cache_config_info", valueLabel: "block_size"},
	{engine: VLLM, field: PromptTokens, name: "vllm:prompt_tokens_total"},
	{engine: VLLM, field: OutputTokens, name: "vllm:generation_tokens_total"},
	{engine: VLLM, field: PrefixQueries, name: "vllm:prefix_cache_queries_total"},
	{engine: VLLM, field: PrefixQueries, name: "vllm:gpu_prefix_cache_queries_total", optional: true},
	{engine: VLLM, field: PrefixHits, name: "vllm:prefix_cache_hits_total"},
	{engine: VLLM, field: PrefixHits, name: "vllm:gpu_prefix_cache_hits_total", optional: true},
	{engine: VLLM, field: Intervals, name: "vllm:inter_token_latency_seconds_count", optional: true}, // from 0.10
	{engine: VLLM, field: Intervals, name: "vllm:time_per_output_token_seconds_count", optional: true},
	{engine: VLLM, field: IntervalTime, name: "vllm:inter_token_latency_seconds_sum", optional: true},
	{engine: VLLM, field: IntervalTime, name: "vllm:time_per_output_token_seconds_sum", optional: true},
	{engine: VLLM, field: Preemptions, name: "vllm:num_preemptions_total"},
	{engine: VLLM, field: Awake, name: "vllm:engine_sleep_state", label: "sleep_state", value: "awake", optional: true},
	// Only with LoRA enabled.
	{engine: VLLM, field: MaxAdapters, name: "vllm:lora_requests_info", valueLabel: "max_lora", optional: true},

	{engine: SGLang, field: Running, name: "sglang:num_running_reqs", label: "priority"},
	{engine: SGLang, field: Waiting, name: "sglang:num_queue_reqs", label: "priority"},
	{
		engine: SGLang, field: Waiting, name: "sglang:num_grammar_queue_reqs", label: "priority", adds: true,
		optional: true,
	},
	// With disaggregated prefill: requests that wait for their prefill, or for the KV cache of it.
	{
		engine: SGLang, field: Waiting, name: "sglang:num_prefill_bootstrap_queue_reqs", label: "priority",
		adds: true, optional: true,
	},
	{
		engine: SGLang, field: Waiting, name: "sglang:num_decode_prealloc_queue_reqs", label: "priority",
		adds: true, optional: true,
	},
	{
		engine: SGLang, field: Waiting, name: "sglang:num_decode_transfer_queue_reqs", label: "priority",
		adds: true, optional: true,
	},
	{engine: SGLang, field: KVUse, name: "sglang:token_usage"},
	{engine: SGLang, field: KVUse, name: "sglang:full_token_usage", optional: true},
	{engine: SGLang, field: KVBlocks, name: "sglang:cache_config_info", valueLabel: "num_pages"},
	{engine: SGLang, field: BlockTokens, name: "sglang:cache_config_info", valueLabel: "page_size"},
	{engine: SGLang, field: PromptTokens, name: "sglang:prompt_tokens_total"},
	{engine: SGLang, field: OutputTokens, name: "sglang:generation_tokens_total"},
	{engine: SGLang, field: Intervals, name: "sglang:inter_token_latency_seconds_count", optional: true},
	{engine: SGLang, field: IntervalTime, name: "sglang:inter_token_latency_seconds_sum", optional: true},
	{engine: SGLang, field: Preemptions, name: "sglang:num_retracted_requests_total", optional: true},

	{engine: TensorRTLLM, field: Running, name: "trtllm_num_requests_running"},
	{engine: TensorRTLLM, field: Waiting, name: "trtllm_num_requests_waiting"},
	{engine: TensorRTLLM, field: KVUse, name: "trtllm_kv_cache_utilization"},
	{engine: TensorRTLLM, field: KVUsedBlocks, name: "trtllm_kv_cache_used_blocks"},
	{engine: TensorRTLLM, field: KVBlocks, name: "trtllm_kv_cache_max_blocks"},
	{engine: TensorRTLLM, field: BlockTokens, name: "trtllm_kv_cache_tokens_per_block"},
	{engine: TensorRTLLM, field: Served, name: "trtllm_request_success_total", optional: true},

	{engine: Triton, field: Running, name: "nv_trt_llm_request_metrics", label: "request_type", value: "scheduled"},
	{engine: Triton, field: Waiting, name: "nv_trt_llm_request_metrics", label: "request_type", value: "waiting"},
	{engine: Triton, field: Waiting, name: "nv_inference_pending_request_count", optional: true}, // other backends
	{
		engine: Triton, field: KVUse, name: "nv_trt_llm_kv_cache_block_metrics",
		label: "kv_cache_block_type", value: "fraction",
	},
	{
		engine: Triton, field: KVUsedBlocks, name: "nv_trt_llm_kv_cache_block_metrics",
		label: "kv_cache_block_type", value: "used",
	},
	{
		engine: Triton, field: KVBlocks, name: "nv_trt_llm_kv_cache_block_metrics",
		label: "kv_cache_block_type", value: "max",
	},
	{
		engine: Triton, field: BlockTokens, name: "nv_trt_llm_kv_cache_block_metrics",
		label: "kv_cache_block_type", value: "tokens_per",
	},
	{engine: Triton, field: Served, name: "nv_inference_request_success", optional: true},

	{engine: TGI, field: Running, name: "tgi_batch_current_size"},
	{engine: TGI, field: Waiting, name: "tgi_queue_size"},
	{engine: TGI, field: Served, name: "tgi_request_count", optional: true},

	{engine: LlamaCPP, field: Running, name: "llamacpp:requests_processing"},
	{engine: LlamaCPP, field: Waiting, name: "llamacpp:requests_deferred"},
	{engine: LlamaCPP, field: KVUse, name: "llamacpp:kv_cache_usage_ratio", optional: true}, // until 2025
	{engine: LlamaCPP, field: PromptTokens, name: "llamacpp:prompt_tokens_total"},           // cached ones excluded
	{engine: LlamaCPP, field: PromptTokens, name: "llamacpp:prompt_tokens_cached_total", adds: true, optional: true},
	{engine: LlamaCPP, field: OutputTokens, name: "llamacpp:tokens_predicted_total"},
	{engine: LlamaCPP, field: Intervals, name: "llamacpp:tokens_predicted_total"},
	{engine: LlamaCPP, field: IntervalTime, name: "llamacpp:tokens_predicted_seconds_total"},
	{engine: LlamaCPP, field: PrefixQueries, name: "llamacpp:prompt_tokens_total"},
	{engine: LlamaCPP, field: PrefixQueries, name: "llamacpp:prompt_tokens_cached_total", adds: true, optional: true},
	{engine: LlamaCPP, field: PrefixHits, name: "llamacpp:prompt_tokens_cached_total", optional: true},

	{
		engine: Dynamo, field: Running, name: "dynamo_component_inflight_requests",
		label: "dynamo_endpoint", value: "generate",
	},
	{engine: Dynamo, field: Waiting, name: "dynamo_work_handler_queue_depth"},
	// 0 to 1, despite the name.
	{engine: Dynamo, field: KVUse, name: "dynamo_component_gpu_cache_usage_percent", optional: true},
	{engine: Dynamo, field: KVUse, name: "dynamo_component_kvstats_gpu_cache_usage_percent", optional: true},
	{engine: Dynamo, field: KVUsedBlocks, name: "dynamo_component_kvstats_active_blocks", optional: true},
	{engine: Dynamo, field: KVBlocks, name: "dynamo_component_total_blocks", optional: true},
	{engine: Dynamo, field: KVBlocks, name: "dynamo_component_kvstats_total_blocks", optional: true},
	{
		engine: Dynamo, field: Served, name: "dynamo_component_requests_total",
		label: "dynamo_endpoint", value: "generate", optional: true,
	},
})

// withRanks sets rank and mean, which follow from the rest of the table.
func withRanks(list []family) []family {
	rank := uint8(0)
	for i := range list {
		if !list[i].adds {
			rank++
		}
		list[i].rank = rank
		switch list[i].field {
		case KVUse, BlockTokens, MaxAdapters:
			list[i].mean = true
		}
	}
	return list
}

// String returns the series of the family in the notation of PromQL.
func (f *family) String() string {
	if f.value == "" {
		return f.name
	}
	return f.name + `{` + f.label + `="` + f.value + `"}`
}

// accepts reports whether a series with these labels belongs to the family.
func (f *family) accepts(labels []byte) bool {
	return f.label == "" || string(label(labels, f.label)) == f.value
}
