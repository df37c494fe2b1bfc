package vllmsim

// cacheConfigLabels are the labels vLLM 0.32 puts on vllm:cache_config_info, with $ marking those
// that depend on the server.
const cacheConfigLabels = "" +
	`_block_size_resolved="True",block_size="$BLOCK",cache_dtype="auto",` +
	`cache_hit_alignment_tokens="None",effective_attention_block_size="$BLOCK",` +
	`enable_mamba_shared_prefix_checkpoint="False",enable_prefix_caching="True",engine="0",` +
	`gpu_memory_utilization="0.92",hash_block_size="None",is_attention_free="False",` +
	`kv_cache_dtype_skip_layers="[]",kv_cache_layout="None",kv_cache_max_concurrency="$CONCURRENCY",` +
	`kv_cache_memory_bytes="1073741824",kv_cache_size_tokens="$TOKENS",` +
	`kv_offloading_backend="native",kv_offloading_size="None",kv_sharing_fast_prefill="False",` +
	`mamba_block_size="None",mamba_cache_dtype="auto",mamba_cache_mode="none",` +
	`mamba_page_size_padded="None",mamba_ssm_cache_dtype="auto",num_cpu_blocks="None",` +
	`num_gpu_blocks="$NUM",num_gpu_blocks_override="None",prefix_cache_retention_interval="0",` +
	`prefix_caching_hash_algo="sha256",prefix_match_unit="None",replayssm_buffer_len="16",` +
	`skip_page_size_padded="None",sliding_window="None",swa_bounded_replay="True",` +
	`use_kda_recoverssm="False",use_replayssm="False",user_specified_block_size="True"`
