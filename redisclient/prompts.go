package redisclient

import (
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
)

// recordPrompt records that the endpoint has the plan's prompt in its cache. If the command fails, the prompt is
// recorded when it comes again.
func (at *place) recordPrompt(now time.Duration, p *lb.Plan, addr string) {
	if !p.Prefix.NeedsLookup() {
		return
	}
	b := scriptRecord.command(nil, 1, 3)
	b = appendArg(b, at.keys.PagesKey(p.Prefix.IndexMemory.Remote))
	b = appendArg(b, wire.Writer(nil).Uint32(lb.EndpointTag(addr)))
	b = appendChain(b, &p.Prefix)
	b = appendInt(b, min(p.Prefix.TTL, lb.MaxTTL).Milliseconds())
	at.sendBackground(now, scriptRecord, b, func(time.Duration, Value, error) {})
}

// forgetPrompt deletes the record that the endpoint has more than the first n of the plan's blocks. If the command
// fails, the record stays until it is too old.
func (at *place) forgetPrompt(now time.Duration, p *lb.Plan, addr string, n int) {
	if n >= min(len(p.Prefix.Blocks), maxBlocks) {
		return
	}
	b := scriptForget.command(nil, 1, 3)
	b = appendArg(b, at.keys.PagesKey(p.Prefix.IndexMemory.Remote))
	b = appendArg(b, wire.Writer(nil).Uint32(lb.EndpointTag(addr)))
	b = appendWholeChain(b, &p.Prefix)
	b = appendInt(b, int64(max(0, n)+1))
	at.sendBackground(now, scriptForget, b, func(time.Duration, Value, error) {})
}
