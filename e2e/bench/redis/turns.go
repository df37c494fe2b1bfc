package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb/prompt"
)

// turnCell is what prompts of one message cost: one block of the published scheme, whatever its length.
type turnCell struct {
	bytes, blocks int
	*cell
}

// newTurn draws prompts of one message of so many bytes: in turns one of which nothing is known, and the same once more.
func newTurn(bytes int) (*prompts, error) {
	body := []byte(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("x", bytes) + `"}]}`)
	_, parts, err := prompt.Read(body, true)
	if err != nil {
		return nil, err
	}
	blocks, _ := prompt.NewChainer(prompt.Secret("bench"), firstBlock).Chain(body, &parts)
	return &prompts{blocks: blocks, turns: 1}, nil
}

// compareTurns measures every contender over prompts of one message.
func compareTurns(
	ctx context.Context, s settings, server *redisserver.Server, endpoints, bytes int,
) (turnCell, error) {
	one, err := newTurn(bytes)
	if err != nil {
		return turnCell{}, err
	}
	draw := func() *prompts {
		p, _ := newTurn(bytes) // which has worked before
		return p
	}
	c, err := compare(ctx, s, server, endpoints, contendersOver(draw), []part{
		{1, (*stage).warm}, {1, (*stage).timePhase}, {1, (*stage).drain},
	})
	return turnCell{bytes, len(one.blocks), c}, err
}

func (c turnCell) String() string {
	text := fmt.Sprintf("one turn of %d bytes, %d blocks, %d endpoints: server µs per reservation", c.bytes, c.blocks, c.endpoints)
	for _, name := range []string{warmgate, blockXOR, blockKeys} {
		text += fmt.Sprintf("; %s %s", name, c.spread(name, reserveOf).Format("%.1f"))
	}
	return text + fmt.Sprintf("; warmgate over xor %s, over keys %s",
		c.ratio(warmgate, blockXOR, reserveOf).Format("%.2f"), c.ratio(warmgate, blockKeys, reserveOf).Format("%.2f"))
}
