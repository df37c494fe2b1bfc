package higresshost

import (
	"encoding/binary"
	"strconv"
	"strings"
)

// le64 is how the host hands integers to the guest.
func le64(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

// property answers get_property for a path with dots.
func (v *vm) property(s *Stream, path string) ([]byte, bool) {
	switch path {
	case "plugin_name", "plugin_root_id", "plugin_vm_id":
		return nil, true // Higress sets none of them
	case "plugin_vm_memory":
		return le64(uint64(v.mod.Memory().Size())), v.gw.opts.Profile.higress()
	}
	if s == nil {
		return nil, false
	}
	if value, ok := s.Properties[path]; ok {
		return []byte(value), true
	}
	if value, ok := s.property(path); ok {
		return value, true
	}
	value, ok := s.FilterState[path]
	return []byte(value), ok
}

// property answers what the stream knows about itself.
func (s *Stream) property(path string) ([]byte, bool) {
	higress := s.gw.opts.Profile.higress()
	switch path {
	case "route_name":
		return text(s.route, higress || s.Routed)
	case "cluster_name":
		return text(s.Cluster, higress || s.Routed)
	case "xds.route_name":
		return text(s.route, true)
	case "xds.cluster_name":
		return text(s.Cluster, true)
	case "x_request_id":
		return text(s.requestID, higress)
	case "upstream.address":
		return text(s.Upstream(), s.Upstream() != "")
	case "upstream.request_attempt_count":
		return le64(uint64(s.Attempts)), true
	case "response.code":
		return le64(uint64(s.Code)), s.Code != 0
	case "response.code_details":
		return text(s.Details, s.Details != "")
	case "response.flags":
		return le64(uint64(s.Flags)), true
	case "source.address":
		return text("127.0.0.1:50000", true)
	}
	if name, ok := strings.CutPrefix(path, "request."); ok {
		return s.requestProperty(name)
	}
	return nil, false
}

func (s *Stream) requestProperty(name string) ([]byte, bool) {
	h := s.Request.Headers
	if h == nil {
		return nil, false
	}
	path := h.Get(":path")
	switch name {
	case "path":
		return text(path, true)
	case "url_path":
		path, _, _ = strings.Cut(path, "?")
		return text(path, true)
	case "query":
		_, query, _ := strings.Cut(path, "?")
		return text(query, true)
	case "host":
		return text(h.Get(":authority"), true)
	case "method", "scheme":
		return text(h.Get(":"+name), true)
	case "id":
		return text(s.requestID, true)
	case "protocol":
		return text("HTTP/1.1", true)
	case "total_size", "size":
		return le64(uint64(s.BytesSent)), true
	}
	if key, ok := strings.CutPrefix(name, "headers."); ok {
		value, has := h.Lookup(key)
		return text(value, has)
	}
	return nil, false
}

func text(value string, ok bool) ([]byte, bool) { return []byte(value), ok }

// setProperty implements set_property. Higress reads some names as commands; everything else becomes filter state,
// which the access log can print.
func (v *vm) setProperty(s *Stream, path, value string) status {
	if path == "wasm_need_rebuild" && v.gw.opts.Profile.higress() {
		v.wantsRebuild = value == "true"
		return statusOK
	}
	if s == nil {
		return statusNotFound
	}
	if v.gw.opts.Profile.higress() {
		if tag, ok := strings.CutPrefix(path, "trace_span_tag."); ok {
			if s.Callbacks.Log == 0 && s.Callbacks.Done == 0 { // the span is finished before
				s.Span[tag] = value
			}
			return statusOK
		}
		switch path {
		case "clear_route_cache":
			s.clearRoute = value != "off"
			return statusOK
		case "set_decoder_buffer_limit", "set_encoder_buffer_limit":
			limit, err := strconv.Atoi(value)
			if err != nil || limit < 0 {
				return statusBadArgument
			}
			if path == "set_decoder_buffer_limit" {
				s.Request.Limit = limit
			} else {
				s.Response.Limit = limit
			}
			return statusOK
		}
	}
	s.FilterState[path] = value
	return statusOK
}
