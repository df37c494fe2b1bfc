package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"
	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/types"
)

var actions = map[string]types.Action{
	"continue": 0, "stop": 1, "buffer": 1, "watermark": 2, "nobuffer": 3, "stopall": 4,
}

// run logs the callback and does the operations of the phase; the last action named is the answer, else continue.
func (s *stream) run(phase string, n int, end bool) types.Action {
	proxywasm.LogInfo(fmt.Sprintf("%s %d %v %s", phase, n, end, s.config))
	var action types.Action
	for _, part := range strings.Split(s.script, ";") {
		name, list, _ := strings.Cut(part, ":")
		if strings.TrimSpace(name) != phase {
			continue
		}
		for _, op := range strings.Split(list, ",") {
			words := strings.Fields(op)
			if a, ok := actions[words[0]]; ok {
				action = a
				continue
			}
			s.do(words[0], append(words[1:], "", ""))
		}
	}
	return action
}

// do runs one operation; every answer of the host is logged as "name: answer".
func (s *stream) do(op string, arg []string) {
	switch op {
	case "resume":
		report(op, "", proxywasm.ResumeHttpRequest())
	case "resume_response":
		report(op, "", proxywasm.ResumeHttpResponse())
	case "local":
		code, _ := strconv.Atoi(arg[0])
		report(op, "", proxywasm.SendHttpResponseWithDetail(uint32(code), "by_guest", [][2]string{{"x-guest", "1"}}, []byte("no"), -1))
	case "panic":
		panic("by script")
	case "park":
		parked = append(parked, s.id)
	case "rebuild":
		report(op, "", proxywasm.SetProperty([]string{"wasm_need_rebuild"}, []byte("true")))
	case "now":
		report(op, strconv.FormatInt(time.Now().UnixMilli(), 10), nil)
	case "body":
		b, err := proxywasm.GetHttpRequestBody(0, 1<<20)
		report(op, string(b), err)
	case "response_body":
		b, err := proxywasm.GetHttpResponseBody(0, 1<<20)
		report(op, string(b), err)
	case "get":
		v, err := proxywasm.GetHttpRequestHeader(arg[0])
		report(op, v, err)
	case "get_response":
		v, err := proxywasm.GetHttpResponseHeader(arg[0])
		report(op, v, err)
	case "set":
		report(op, "", proxywasm.ReplaceHttpRequestHeader(arg[0], arg[1]))
	case "prop":
		b, err := proxywasm.GetProperty(strings.Split(arg[0], "."))
		report(op, strconv.Quote(string(b)), err)
	case "set_response":
		report(op, "", proxywasm.ReplaceHttpResponseHeader(arg[0], arg[1]))
	case "remove":
		report(op, "", proxywasm.RemoveHttpRequestHeader(arg[0]))
	case "trailer":
		v, err := proxywasm.GetHttpRequestTrailer(arg[0])
		report(op, v, err)
	case "setprop":
		report(op, "", proxywasm.SetProperty([]string{arg[0]}, []byte(arg[1])))
	case "http":
		s.http(arg[0])
	default:
		s.process(op, arg)
	}
}

// process runs the operations on what the process shares.
func (s *stream) process(op string, arg []string) {
	n, _ := strconv.ParseInt(arg[1], 10, 64)
	switch op {
	case "add": // read, then compare and swap
		v, cas, err := proxywasm.GetSharedData(arg[0])
		old, _ := strconv.ParseInt(string(v), 10, 64)
		report(op, string(v), err)
		report(op, "", proxywasm.SetSharedData(arg[0], []byte(strconv.FormatInt(old+n, 10)), cas))
	case "gauge":
		proxywasm.DefineGaugeMetric(arg[0]).Add(n)
	case "count":
		proxywasm.DefineCounterMetric(arg[0]).Increment(uint64(n))
	case "record":
		proxywasm.DefineHistogramMetric(arg[0]).Record(uint64(n))
	default:
		s.higress(op, arg)
	}
}

func (s *stream) http(cluster string) {
	headers := [][2]string{{":method", "GET"}, {":path", "/x"}, {":authority", "a"}}
	_, err := proxywasm.DispatchHttpCall(cluster, headers, nil, nil, 100, func(n, size, _ int) {
		h, _ := proxywasm.GetHttpCallResponseHeaders()
		b, _ := proxywasm.GetHttpCallResponseBody(0, size)
		proxywasm.LogInfo(fmt.Sprintf("http reply %d %v %q", n, h, b))
		report("resume", "", proxywasm.ResumeHttpRequest())
	})
	report("http", "", err)
}

func report(op, value string, err error) { proxywasm.LogInfo(op + ": " + value + errText(err)) }
