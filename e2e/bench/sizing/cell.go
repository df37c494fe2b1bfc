package sizing

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/warmgate/warmgate/lb/prompt"
)

// cell is a load.
type cell struct {
	rate   float64 // requests per second
	tokens int     // of each prompt
}

// String names the cell as its settings do.
func (c cell) String() string {
	return strconv.FormatFloat(c.rate, 'f', -1, 64) + "x" + strconv.Itoa(c.tokens)
}

// name names the cell in a table.
func (c cell) name() string {
	return fmt.Sprintf("%s/s of %d tokens", strconv.FormatFloat(c.rate, 'f', -1, 64), c.tokens)
}

// parseCells reads loads that are divided by commas, each RATExTOKENS.
func parseCells(list string) ([]cell, error) {
	var out []cell
	for _, field := range strings.Split(list, ",") {
		rate, tokens, _ := strings.Cut(strings.TrimSpace(field), "x")
		c := cell{}
		var err, err2 error
		c.rate, err = strconv.ParseFloat(rate, 64)
		c.tokens, err2 = strconv.Atoi(tokens)
		if err != nil || err2 != nil || !(c.rate > 0 && c.rate < 1e6) || c.tokens < 1 {
			return nil, fmt.Errorf("%q is not a load such as 98.7x100000", field)
		}
		out = append(out, c)
	}
	return out, nil
}

// size returns how many bytes the bodies of a cell have.
func (s settings) size(c cell) int { return int(float64(c.tokens) * s.tokenBytes) }

// requests returns how many of them are sent in one run.
func (s settings) requests(c cell) int { return max(1, int(c.rate*s.span.Seconds())) }

// looked returns which share of a body a contender reads.
func (s settings) looked(c cell, con contender) float64 {
	return min(1, float64(con.inspect)/float64(s.size(c)))
}

// known returns which share of a prompt's text a contender can find in its index: the blocks of a chain are limited in
// number, and only what is read can be in them.
func known(body []byte, con contender) (float64, error) {
	if con.policy != "prefix_cache" {
		return 0, nil
	}
	info, err := prompt.Scan(body, true)
	if err != nil {
		return 0, err
	}
	read := min(len(body), con.inspect)
	_, parts, err := prompt.Read(body[:read], read == len(body))
	if err != nil {
		return 0, err
	}
	const blockBytes = 512 // the default of prefix.block_bytes
	blocks, _ := prompt.NewChainer(prompt.Secret("sizing"), blockBytes).Chain(body[:read], &parts, "llm")
	if len(blocks) == 0 {
		return 0, nil
	}
	return min(1, float64(blocks[len(blocks)-1].End)/float64(info.TextBytes)), nil
}
