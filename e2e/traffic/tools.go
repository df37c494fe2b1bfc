package traffic

import (
	"encoding/json"
	"math/rand/v2"
	"strconv"

	"github.com/warmgate/warmgate/e2e/loadgen"
)

// tool is a function that a model may call, as the chat API describes it.
type tool struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Parameters  map[string]any `json:"parameters"`
}

// Tools returns descriptions of tools of about so many tokens together, as they are sent.
func Tools(r *rand.Rand, tokens int) json.RawMessage {
	const description, parameter = 90, 35 // tokens
	text := []byte("[")
	for i := 0; len(text) < 4*tokens; i++ {
		property := map[string]any{"type": "string", "description": loadgen.Text(r, parameter)}
		one, err := json.Marshal(tool{Type: "function", Function: function{
			Name: "tool_" + strconv.Itoa(i), Description: loadgen.Text(r, description),
			Parameters: map[string]any{"type": "object", "properties": map[string]any{"argument": property}},
		}})
		if err != nil {
			panic(err) // texts always marshal
		}
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, one...)
	}
	return append(text, ']')
}
