//go:build !envoy

package main

import (
	"strconv"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"

	"github.com/warmgate/warmgate/plugin/measured"
)

// declareFields has nothing to declare: Higress has a property for each attribute of a span.
func declareFields() {}

// fieldsProperty is where the access log finds what is known of a request, between quotes, as
// %FILTER_STATE(wasm.warmgate_fields:PLAIN)%: escaped, as Higress has ai_log.
const fieldsProperty = "warmgate_fields"

// fieldsMemory is the memory for a request's fields: the gateway copies them.
var fieldsMemory []byte

// LogFields implements host.GatewayStream.
func (stream) LogFields(fields []measured.Field) {
	fieldsMemory = measured.AppendQuoted(fieldsMemory[:0], fields)
	_ = proxywasm.SetProperty([]string{fieldsProperty}, fieldsMemory)
}

// spanAttribute is the property that sets an attribute of the request's span, and what the gateway calls that.
type spanAttribute struct{ field, property string }

// spanAttributes are the attributes, by the names of fields: those that OpenTelemetry has names for have these.
var spanAttributes = [...]spanAttribute{
	{"model", "trace_span_tag.gen_ai.request.model"},
	{"operation", "trace_span_tag.gen_ai.operation.name"},
	{"prompt_tokens", "trace_span_tag.gen_ai.usage.input_tokens"},
	{"output_tokens", "trace_span_tag.gen_ai.usage.output_tokens"},
	{"cached_tokens", "trace_span_tag.gen_ai.usage.cache_read.input_tokens"},
	{"reasoning_tokens", "trace_span_tag.gen_ai.usage.reasoning.output_tokens"},
	{"usage", "trace_span_tag.warmgate.usage"},
	{"error", "trace_span_tag.error.type"},
	{"endpoint", "trace_span_tag.warmgate.endpoint"},
	{"reason", "trace_span_tag.warmgate.reason"},
	{"policy", "trace_span_tag.warmgate.policy"},
	{"class", "trace_span_tag.warmgate.class"},
	{"outcome", "trace_span_tag.warmgate.outcome"},
	{"wait_ms", "trace_span_tag.warmgate.wait_ms"},
	{"ttft_ms", "trace_span_tag.warmgate.ttft_ms"},
	{"match", "trace_span_tag.warmgate.match"},
	{"runner_up", "trace_span_tag.warmgate.runner_up"},
	{"rule", "trace_span_tag.warmgate.rule"},
}

// SetFields implements host.GatewayStream. Higress's spans have texts only.
func (stream) SetFields(fields []measured.Field) {
	var digits [24]byte
	for i := range fields {
		f := &fields[i]
		for j := range spanAttributes {
			if a := &spanAttributes[j]; a.field == f.Name {
				value := append(digits[:0], f.Text...)
				if f.Text == "" {
					value = strconv.AppendFloat(value, f.Number, 'f', -1, 64)
				}
				_ = proxywasm.SetProperty([]string{a.property}, value)
			}
		}
	}
}
