package prompt_test

import (
	"fmt"

	"github.com/warmgate/warmgate/lb/prompt"
)

// Scan reads the limits and the length of the prompt.
func ExampleScan() {
	body := []byte(`{"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "Hello, world"}]}`)
	info, err := prompt.Scan(body, true)
	fmt.Println(info.API == prompt.Chat, info.MaxTokens, info.TextBytes, err)

	_, err = prompt.Scan([]byte(`{"max_tokens": 1, "max_tokens": 100}`), true)
	fmt.Println(err)
	// Output:
	// true 100 16 <nil>
	// prompt: a key of the request is there twice
}

// Two prompts have the blocks of their common beginning in common.
func ExampleChainer() {
	chainer := prompt.NewChainer(prompt.Secret("secret"), 16)
	keys := func(text string) (keys []uint64) {
		body := []byte(`{"model": "m", "prompt": "` + text + `"}`)
		_, parts, err := prompt.Read(body, true)
		if err != nil {
			panic(err)
		}
		blocks, _ := chainer.Chain(body, &parts, "cluster")
		for _, b := range blocks {
			keys = append(keys, b.Key)
		}
		return keys
	}
	a := keys("You are a helpful assistant. What is a load balancer?")
	b := keys("You are a helpful assistant. What is a KV cache?")
	common := 0
	for common < min(len(a), len(b)) && a[common] == b[common] {
		common++
	}
	fmt.Println(len(a), "and", len(b), "blocks,", common, "in common")
	// Output:
	// 7 and 6 blocks, 4 in common
}
