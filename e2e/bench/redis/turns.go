package redis

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb/prompt"
)

// turnCell is what prompts of one message cost: a single block of the published scheme, whatever their length.
type turnCell struct {
	bytes, blocks int // blocks are Warmgate's
	*cell
}

// turnOf cuts a prompt of one message of so many bytes.
func turnOf(bytes int) ([]prompt.Block, error) {
	body := []byte(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("x", bytes) + `"}]}`)
	_, parts, err := prompt.Read(body, true)
	if err != nil {
		return nil, err
	}
	blocks, _ := prompt.NewChainer(prompt.Secret("bench"), firstBlock).Chain(body, &parts)
	return blocks, nil
}

// compareTurns measures every contender over prompts of one message: by turns one that is unknown, and the same once
// more.
func compareTurns(ctx context.Context, s settings, server *redisserver.Server, bytes int) (turnCell, error) {
	blocks, err := turnOf(bytes)
	if err != nil {
		return turnCell{}, err
	}
	draw := func() *prompts { return &prompts{blocks: slices.Clone(blocks), turns: 1} }
	c, err := compare(ctx, s, server, s.few, contendersOver(draw), []part{
		{1, (*stage).warm}, {1, (*stage).crowd}, {1, (*stage).timePhase}, {1, (*stage).drain},
	})
	return turnCell{bytes, len(blocks), c}, err
}

func (c turnCell) String() string {
	text := fmt.Sprintf("one message of %d bytes, %d blocks, %d endpoints: server µs per reservation",
		c.bytes, c.blocks, c.endpoints)
	for _, name := range []string{warmgate, blockXOR, blockKeys} {
		text += fmt.Sprintf("; %s %s", name, c.spread(name, reserveOf).Format("%.1f"))
	}
	return text + fmt.Sprintf("; warmgate over xor %s, over keys %s",
		c.ratio(warmgate, blockXOR, reserveOf).Format("%.2f"), c.ratio(warmgate, blockKeys, reserveOf).Format("%.2f"))
}

// line returns the part of the last line that is about prompts of one message of some length.
func (c turnCell) line() bench.Line {
	return bench.Line{
		"bytes": c.bytes, "blocks": c.blocks, "endpoints": c.endpoints,
		"reserve_us": c.spread(warmgate, reserveOf).Median,
		"vs_xor":     c.ratio(warmgate, blockXOR, reserveOf), "vs_keys": c.ratio(warmgate, blockKeys, reserveOf),
	}
}
