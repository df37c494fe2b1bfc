package prompt

import (
	"slices"
	"strings"
	"testing"
)

// messageWith is a request with text, a part and text.
func messageWith(part string) string {
	return chat(`{"role":"user","content":[{"type":"text","text":"` + words(1, 200) + `"},` + part +
		`,{"type":"text","text":"` + words(2, 200) + `"}]}`)
}

// The same picture is the same prompt, wherever its bytes come from; another one is worth the text in front of it.
func TestChainOfTheSamePicture(t *testing.T) {
	data := strings.Repeat("QUJD/+", 500)
	url := func(url string) string { return `{"type":"image_url","image_url":{"url":"` + url + `"}}` }
	samePictures(t, [][]string{
		{
			url("data:image/png;base64," + data), url("data:image/jpeg;base64," + strings.ReplaceAll(data, "/", `\/`)),
			url("data:image/png;base64," + data + "=="),
			`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + data + `"}}`,
			`{"type":"input_image","image_url":"data:image/png;base64,` + data + `","detail":"auto"}`,
			`{"inlineData":{"data":"` + data + `","mimeType":"image/png"}}`,
			`{"inline_data":{"mime_type":"image/png","data":"` + data + `"}}`,
			`{"cache_control":{"type":"ephemeral","ttl":"5m"},"image_url":{"url":"data:image/png;base64,` + data + `"},"type":"image_url"}`,
		},
		{url("data:image/png;base64,QUJD" + data)},
		{`{"type":"image_url","image_url":{"url":"https://example.com/a.png?page=2","detail":"low"}}`},
		{`{"type":"file","file":{"file_id":"file-1"}}`},
		{`{"type":"input_audio","input_audio":{"data":"` + strings.Repeat("UklG", 100) + `","format":"wav"}}`},
	})
}

// The same address is the same picture, whoever signed it and when.
func TestChainOfSignedAddresses(t *testing.T) {
	url := func(url string) string { return `{"type":"image_url","image_url":{"url":"` + url + `"}}` }
	const (
		signed    = "https://bucket.s3.amazonaws.com/a.png"
		own       = "https://pictures.example.com/a.png?id=1&process=small&X-Amz-Date="
		tokens    = "https://me.blob.core.windows.net/a.png?sv=2021&sr=b&se="
		supabase  = "https://p.supabase.co/storage/v1/object/sign/a.png?token="
		github    = "https://private-user-images.githubusercontent.com/1/2.png?jwt="
		instagram = "https://scontent.cdninstagram.com/v/a.jpg?stp=dst-jpg&_nc_ht=a&oh="
		folder    = "https://a.oss-cn-hangzhou.aliyuncs.com/a.png?x-oss-process="
	)
	samePictures(t, [][]string{
		{url(signed + "?X-Amz-Signature=one"), url(signed + "?X-Amz-Signature=two"), url(signed)},
		{url(own + "1&X-Amz-Signature=one"), url(own + "2&X-Amz-Signature=two")},
		{url(strings.Replace(own, "id=1", "id=2", 1) + "1&X-Amz-Signature=one")},
		{
			url(tokens + "1&sig=one"), url(tokens + "2&sig=two"),
			url(tokens + "1&st=1&sig=one"), url(tokens + "1&sig=one&st=2"),
		},
		{
			url("https://cdn.discordapp.com/attachments/1/2/a.png?ex=66a&is=66b&hm=abc&"),
			url("https://cdn.discordapp.com/attachments/1/2/a.png?ex=77a&is=77b&hm=def"),
			url("https://cdn.discordapp.com/attachments/1/2/a.png"),
		},
		{url("https://cdn.discordapp.com/attachments/1/2/b.png?ex=66a&is=66b&hm=abc&")},
		{url("https://example.com/attachments/1/2/a.png?ex=66a&is=66b&hm=abc")},
		{url("https://example.com/attachments/1/2/a.png?ex=77a&is=66b&hm=abc")},
		{url(supabase + "one"), url(supabase + "two")},
		{url("https://p.supabase.co/storage/v1/object/public/a.png?token=one")},
		{url(supabase + "one&width=100"), url(supabase + "two&width=100")},
		{url(github + "one"), url(github + "two")},
		{url(instagram + "1&oe=1"), url(instagram + "2&oe=2")},
		{url(folder + "resize,w_1&Expires=1&Signature=a"), url(folder + "resize,w_1&Expires=2&Signature=b")},
		{url(folder + "resize,w_2&Expires=1&Signature=a")},
		{url(signed + "?versionId=1")},
		{url(signed + "?versionId=2")},
		{url("https://a.cloudfront.net/a?id=1")},
		{url("https://a.cloudfront.net/a?id=2")},
		{url("https://example.com/a.png?page=1")},
		{url("https://example.com/a.png?page=2")},
		{url("https://amazonaws.com.example.com/a.png?page=2")},
	})
}

// samePictures checks that the pictures of a group have the same keys, and others than those of the other groups.
func samePictures(t *testing.T, groups [][]string) {
	t.Helper()
	known := map[uint64]string{} // by their last keys
	for _, group := range groups {
		want := chainOf(t, messageWith(group[0]))
		for _, other := range group[1:] {
			if got := chainOf(t, messageWith(other)); !slices.Equal(got, want) {
				t.Errorf("%.60s: %d of %d blocks are those of %.60s", other, common(t, got, want), len(want), group[0])
			}
		}
		if other := known[want[len(want)-1].Key]; other != "" {
			t.Errorf("%s has the keys of %s", group[0], other)
		}
		known[want[len(want)-1].Key] = group[0]
		another := chainOf(t, messageWith(`{"type":"image_url","image_url":{"url":"https://example.com/b.png"}}`))
		before := len(words(1, 200))
		if n := common(t, want, another); n == 0 || want[n-1].End < before || want[n-1].End > before+20 {
			t.Errorf("%.60s: %d blocks are those of another picture, want those of %d bytes", group[0], n, before)
		}
	}
}

// What is said beside media, or in their place, is part of a prompt.
func TestChainOfWhatIsSaidOfMedia(t *testing.T) {
	long := words(3, 400)
	for _, part := range []string{
		`{"type":"video","video":"https://a/X.mp4"}`,
		`{"type":"video","video":["https://a/0.png","https://a/X.png"]}`,
		`{"type":"image_url","image_url":null,"uuid":"X"}`,
		`{"type":"image_url","image_url":{"url":"https://a/0.png"},"max_pixels":1X}`,
		`{"type":"audio","audio":{"id":"X"}}`,
		`{"type":"document","title":"X","source":{"type":"url","url":"https://a/0.pdf"}}`,
		`{"type":"document","source":{"type":"text","media_type":"text/plain","data":"` + long + `X"}}`,
		`{"type":"document","source":{"type":"content","content":"` + long + `X"}}`,
		`{"type":"document","source":{"type":"content","content":[{"type":"text","text":"` + long + `X"}]}}`,
	} {
		one := chainOf(t, messageWith(strings.Replace(part, "X", "1", 1)))
		two := chainOf(t, messageWith(strings.Replace(part, "X", "2", 1)))
		n := common(t, one, two)
		if n == len(one) {
			t.Errorf("%.80s: another one has the same keys", part)
		}
		if at := strings.Index(part, long); at >= 0 && one[n-1].End < len(words(1, 200))+len(long)-testBlock {
			t.Errorf("%.80s: keys differ behind %d bytes, before its end", part, one[n-1].End)
		}
	}
}

// A picture counts for as many bytes as is expected of the model, in the lengths of a prompt and not in its keys.
func TestPicturesCount(t *testing.T) {
	body := []byte(messageWith(`{"type":"image_url","image_url":{"url":"https://example.com/b.png"}}`))
	_, parts, err := Read(body, true)
	if err != nil {
		t.Fatal(err)
	}
	c := NewChainer(testSecret, testBlock)
	blocks, length := c.Chain(body, &parts)
	plain := slices.Clone(blocks)
	c.Expect(false, slices.Repeat([]int{5000}, MediaSizes))
	blocks, more := c.Chain(body, &parts)
	n, bytes, sizes := c.Media()
	if more != length+5000 || n != 1 || bytes != 5000 || !slices.Equal(sizes, []byte{0}) || len(blocks) != len(plain) {
		t.Fatalf("%d bytes, %d with the picture, %d media", length, more, n)
	}
	for i, b := range blocks {
		if b.Key != plain[i].Key || b.End != plain[i].End && b.End != plain[i].End+5000 {
			t.Errorf("block %d: %+v, want %+v", i, b, plain[i])
		}
	}
}

// A first text is reported with the one behind it, and left out where that is expected.
func TestFirstTexts(t *testing.T) {
	with := func(first, rest string) string {
		return `{"system":[{"type":"text","text":"` + first + `"},{"type":"text","text":"` + rest + `"}],"messages":[]}`
	}
	long := words(1, 1000)
	c := NewChainer(testSecret, testBlock)
	read := func(body string, skip bool) ([]Block, First) {
		c.Expect(skip, nil)
		blocks, _ := blocksOf(t, c, body)
		return slices.Clone(blocks), c.First()
	}
	a, first := read(with("one", long), false)
	b, other := read(with("other", long), false)
	if first.Behind == 0 || first.Behind != other.Behind || first.Text == other.Text || common(t, a, b) != 0 {
		t.Errorf("%+v, %+v, %d blocks in common", first, other, common(t, a, b))
	}
	a, _ = read(with("one", long), true)
	b, other = read(with("other", long), true)
	if !slices.Equal(a, b) || other.Text == first.Text || other.Text == 0 {
		t.Errorf("without their first texts, %d of %d blocks are the same", common(t, a, b), len(a))
	}
	short := `short"},{"text":"`
	for _, rest := range []string{short + long, short + short + short + long, words(1, 300) + short + words(1, 300)} {
		a, first = read(with("one", rest), true)
		b, other = read(with("other", rest), true)
		if !slices.Equal(a, b) || len(a) < 2 || first.Behind == 0 || first.Behind != other.Behind {
			t.Errorf("%.20s: behind first texts %d of %d blocks are the same", rest, common(t, a, b), len(a))
		}
	}
	for _, rest := range []string{"short", words(1, 300), short + short + short + short + long} {
		a, _ = read(with("one", rest), false)
		b, _ = read(with("one", rest), true)
		if !slices.Equal(a, b) {
			t.Errorf("%.20s: a first text is left out in front of a short one", rest)
		}
	}
	if _, first = read(with("one", "short"), false); first.Behind != 0 {
		t.Error("a short text behind the first one counts")
	}
	if _, first = read(with(long+long, long), false); first.Text != 0 {
		t.Error("a long first text counts")
	}
}

// The ids of tool calls are part of a prompt only for models whose templates print them.
func TestIDsOfToolCalls(t *testing.T) {
	body := func(model, id string) string {
		return `{"model":"` + model + `","messages":[{"role":"assistant","tool_calls":[{"id":"` + id +
			`","type":"function","function":{"name":"f","arguments":"` + words(1, 100) + `"}}]},{"role":"tool","tool_call_id":"` + id +
			`","content":"` + words(2, 100) + `"}]}`
	}
	for model, printed := range map[string]bool{
		"m": false, "Qwen/Qwen3-32B": false, "mistralai/Mistral-Small": true, "devSTRAL": true, "a/Kimi-K2": true,
	} {
		a, b := chainOf(t, body(model, "call_1")), chainOf(t, body(model, "call_2"))
		if slices.Equal(a, b) == printed {
			t.Errorf("%s: %d of %d blocks are the same", model, common(t, a, b), len(a))
		}
	}
}

// A block of a system prompt that engines are known to leave out is left out of a list; a system prompt that is one
// text is printed as it is, however it begins.
func TestDroppedBlocks(t *testing.T) {
	line := func(n string) string { return "x-anthropic-billing-header: cch=" + n }
	rest := `,"messages":[{"role":"user","content":"` + words(2, 500) + `"}]}`
	for _, c := range []struct {
		name, one, two string
		common         bool // all of it
	}{
		{
			"a block", `{"system":[{"type":"text","text":"` + line("1") + words(1, 500) + `"}]` + rest,
			`{"system":[{"type":"text","text":"` + line("2") + `"}]` + rest, true,
		},
		{
			"a text", `{"system":"` + line("1") + words(1, 500) + `"` + rest,
			`{"system":"` + line("2") + words(3, 500) + `"` + rest, false,
		},
		{
			"a block of a message", `{"system":"a","messages":[{"role":"system","content":[{"type":"text","text":"` + line("1") + `"}]}]}`,
			`{"system":"a","messages":[{"role":"system","content":[{"type":"text","text":"` + line("2") + `"}]}]}`, true,
		},
		{
			"a message", `{"system":"a","messages":[{"role":"system","content":"` + line("1") + words(1, 500) + `"}]}`,
			`{"system":"a","messages":[{"role":"system","content":"` + line("2") + words(1, 500) + `"}]}`, false,
		},
	} {
		one, two := chainOf(t, c.one), chainOf(t, c.two)
		if n := common(t, one, two); (n == len(one)) != c.common {
			t.Errorf("%s: %d of %d blocks are the same", c.name, n, len(one))
		}
	}
}
