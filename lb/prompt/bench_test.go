package prompt

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"github.com/dchest/siphash"
)

// chatBody returns a chat request of about size bytes: prose with line ends and quotes, in messages of 1 KiB.
func chatBody(size int) []byte {
	const sentence = `He said \"the cache is warm\" and went on, for quite a while, about blocks, prefixes and pages.\n`
	var b bytes.Buffer
	b.WriteString(`{"model":"meta-llama/Llama-3.1-8B-Instruct","stream":true,"messages":[{"role":"system",` +
		`"content":"Be brief."}`)
	for i := 0; b.Len() < size-100; i++ {
		role := [...]string{"user", "assistant"}[i%2]
		b.WriteString(`,{"role":"` + role + `","content":"`)
		for n := b.Len() + min(1024, size-100-b.Len()); b.Len() < n; {
			b.WriteString(sentence)
		}
		b.WriteString(`"}`)
	}
	b.WriteString(`],"max_tokens":128,"temperature":0.7}`)
	return b.Bytes()
}

func BenchmarkScan(b *testing.B) {
	bodies := map[string][]byte{
		"ids16KiB": []byte(`{"model":"m","prompt":[` + string(bytes.Repeat([]byte("12345, "), 2340)) + `1]}`),
		"tiny16KiB": []byte(`{"model":"m","messages":[` + string(bytes.Repeat([]byte(`{"role":"u","content":""},`), 630)) +
			`{}]}`),
		"esc16KiB": []byte(`{"model":"m","prompt":"` + string(bytes.Repeat([]byte(`\u4f60`), 2730)) + `"}`),
	}
	for _, kib := range []int{1, 16, 256} {
		bodies["chat"+strconv.Itoa(kib)+"KiB"] = chatBody(kib << 10)
	}
	for name, body := range bodies {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Scan(body, true); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkStages measures the stages of a prompt: read checks the JSON and finds the fields, chain walks and hashes
// them, and hash is hashing alone, for as many bytes.
func BenchmarkStages(b *testing.B) {
	for _, kib := range []int{1, 16, 64, 256} {
		body := chatBody(kib << 10)
		_, parts, err := Read(body, true)
		if err != nil {
			b.Fatal(err)
		}
		c := NewChainer(testSecret, 512)
		_, length := c.Chain(body, &parts)
		h := siphash.New128(testSecret[:])
		for _, stage := range []struct {
			name string
			run  func()
		}{
			{"read", func() { Read(body, true) }},
			{"chain", func() { c.Chain(body, &parts) }},
			{"hash", func() {
				h.Reset()
				h.Write(body[:min(length, len(body))])
			}},
		} {
			b.Run(stage.name+"/"+strconv.Itoa(kib)+"KiB", func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				for b.Loop() {
					stage.run()
				}
			})
		}
	}
}

// BenchmarkOneText measures a prompt that is one text, whose end is cut finely, too.
func BenchmarkOneText(b *testing.B) {
	for _, kib := range []int{4, 16, 64} {
		line := `He said \"the cache is warm\" and went on.\n`
		body := []byte(oneText("prompt", strings.Repeat(line, kib<<10/len(line))))
		_, parts, err := Read(body, true)
		if err != nil {
			b.Fatal(err)
		}
		c := NewChainer(testSecret, 512)
		b.Run(strconv.Itoa(kib)+"KiB", func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				c.Chain(body, &parts)
			}
		})
	}
}
