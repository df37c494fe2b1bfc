//go:build envoy

package main

import (
	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"

	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/measured"
)

// fieldsProperty is where access logs and tracers find what is known of a request:
// %FILTER_STATE(wasm.warmgate_fields:TYPED)%, %CEL(filter_state['wasm.warmgate_fields'].ttft_ms)%.
const fieldsProperty = "warmgate_fields"

// declareFields tells the gateway that the property is a google.protobuf.Struct: it takes others for plain text. It is
// called in the context of a configuration, which is the one whose requests have the property.
func declareFields() {
	if _, err := proxywasm.CallForeignFunction("declare_property", declaration()); err != nil {
		gateway{}.Log(host.Warn, "the gateway does not know fields of requests: "+err.Error())
	}
}

// declaration returns the argument of declare_property, DeclarePropertyArguments in Envoy's source.
func declaration() []byte {
	const (
		name, kind, schema = 1<<3 | 2, 3 << 3, 4<<3 | 2 // its fields, with their wire types
		isProtobuf         = 3
		of                 = "type.googleapis.com/google.protobuf.Struct"
	)
	b := append([]byte{name, byte(len(fieldsProperty))}, fieldsProperty...)
	b = append(b, kind, isProtobuf, schema, byte(len(of)))
	return append(b, of...)
}

// fieldsMemory is the memory for a request's fields: the gateway copies them.
var fieldsMemory []byte

// LogFields implements host.GatewayStream.
func (s stream) LogFields(fields []measured.Field) { s.SetFields(fields) }

// SetFields implements host.GatewayStream.
func (stream) SetFields(fields []measured.Field) {
	fieldsMemory = measured.AppendStruct(fieldsMemory[:0], fields)
	_ = proxywasm.SetProperty([]string{fieldsProperty}, fieldsMemory)
}
