package calibrate

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Page is what a page of metrics says, of vLLM over all of its engines, or of llama.cpp's server.
type Page struct {
	CacheTokens int // that the KV cache of an engine holds, 0 if the page does not say so

	steps          float64
	generated      float64 // tokens of answers
	prompt, cached float64 // tokens of prompts, and those of them that were in the cache
	interTokenSum  float64 // seconds
	interTokens    float64
	prefillSum     float64 // seconds
	prefills       float64 // 0 from llama.cpp, which does not count prompts
	slots          float64 // that generate in a step, on average, from llama.cpp
}

// computed is how many tokens of prompts were computed.
func (p *Page) computed() float64 { return max(0, p.prompt-p.cached) }

// rows returns the times that the page says, none if it lacks any of what they are made up of.
func (p *Page) rows() []row {
	switch {
	case p.slots > 0 && min(p.steps, p.generated, p.interTokenSum, p.prompt, p.prefillSum) > 0:
		// As the page does not count prompts, their overhead is in the time of their tokens. Beside one slot that
		// generates, only the prompts of others are computed.
		others := p.prompt / p.steps * (p.slots - 1) / p.slots
		return []row{
			{[unknowns]float64{tokenMS: others, stepMS: 1, sequenceMS: p.slots}, 1e3 * p.interTokenSum / p.generated},
			{[unknowns]float64{tokenMS: 1}, 1e3 * p.prefillSum / p.prompt},
		}
	case min(p.steps, p.interTokens, p.interTokenSum, p.prefills, p.prefillSum) == 0:
		return nil
	}
	decodes, computed, begun := p.generated/p.steps, p.computed()/p.steps, p.prefills/p.steps
	// Of the other running requests, which decode beside a prefill, only the mean is known. The share of steps with at
	// least one is taken to be that of a Poisson distribution: 1 - e^-mean.
	others := max(0, decodes-1)
	beside := 1 - math.Exp(-others)
	return []row{
		{[unknowns]float64{begun, computed, 1, decodes}, 1e3 * p.interTokenSum / p.interTokens},
		{[unknowns]float64{1, p.computed() / p.prefills, beside, others}, 1e3 * p.prefillSum / p.prefills},
	}
}

// Parse reads a page. Series of several engines are added up.
func Parse(text string) (Page, error) {
	var p Page
	sums := map[string]*float64{
		"vllm:iteration_tokens_total_count":       &p.steps,
		"vllm:generation_tokens_total":            &p.generated,
		"vllm:prompt_tokens_total":                &p.prompt,
		"vllm:prefix_cache_hits_total":            &p.cached,
		"vllm:inter_token_latency_seconds_sum":    &p.interTokenSum,
		"vllm:inter_token_latency_seconds_count":  &p.interTokens,
		"vllm:request_prefill_time_seconds_sum":   &p.prefillSum,
		"vllm:request_prefill_time_seconds_count": &p.prefills,

		"llamacpp:n_decode_total":                 &p.steps,
		"llamacpp:n_busy_slots_per_decode":        &p.slots,
		"llamacpp:tokens_predicted_total":         &p.generated,
		"llamacpp:tokens_predicted_seconds_total": &p.interTokenSum,
		"llamacpp:prompt_tokens_total":            &p.prompt, // without those that were cached
		"llamacpp:prompt_seconds_total":           &p.prefillSum,
	}
	found := 0
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, labels, value := split(strings.TrimSpace(line))
		if name == "vllm:cache_config_info" {
			size, _ := strconv.Atoi(label(labels, "block_size"))
			blocks, _ := strconv.Atoi(label(labels, "num_gpu_blocks"))
			p.CacheTokens = max(p.CacheTokens, size*blocks)
			continue
		}
		to := sums[name]
		if to == nil {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil || !(v >= 0 && v <= math.MaxFloat64) {
			return p, fmt.Errorf("%s has the value %q", name, value)
		}
		*to += v
		found++
	}
	if found == 0 {
		return p, errors.New("this is no page of metrics of vLLM or llama.cpp")
	}
	return p, nil
}

// split divides a line into the name of a series, its labels and its value.
func split(line string) (name, labels, value string) {
	name, value, _ = strings.Cut(line, " ")
	if open := strings.IndexByte(line, '{'); open >= 0 && open < len(name) {
		end := strings.LastIndexByte(line, '}')
		if end < open {
			return "", "", ""
		}
		name, labels, value = line[:open], line[open+1:end], strings.TrimSpace(line[end+1:])
	}
	value, _, _ = strings.Cut(value, " ") // a timestamp may follow
	return name, labels, value
}

// label returns the value of a label that contains no quotes.
func label(labels, name string) string {
	_, rest, ok := strings.Cut(","+labels, ","+name+`="`)
	if !ok {
		return ""
	}
	value, _, _ := strings.Cut(rest, `"`)
	return value
}
