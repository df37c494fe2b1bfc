package request

import (
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/learned"
)

// maxChainers is how many ways of cutting prompts a VM keeps.
const maxChainers = 256

// Prompts is the part of a VM that cuts prompts into blocks and knows how long they typically are.
type Prompts struct {
	ProcessSecret [16]byte // of all VMs of this process
	chainers      map[chainConfig]*prompt.Chainer
	Models        learned.Models      // how long prompts and answers are
	Rates         learned.Rates       // how many tokens what passes stands for
	Firsts        learned.Firsts      // how prompts begin
	errors        learned.MatchErrors // how well expectations are met
}

// chainConfig is what prompts are cut by.
type chainConfig struct {
	secret [16]byte
	size   int // of a block, in bytes
}

// NewPrompts returns the part of a VM that has seen no prompt.
func NewPrompts() *Prompts {
	return &Prompts{
		chainers: map[chainConfig]*prompt.Chainer{}, Models: learned.Models{}, Rates: learned.Rates{},
		Firsts: learned.Firsts{},
		errors: learned.MatchErrors{},
	}
}

// chainer returns what cuts prompts for the configuration.
func (p *Prompts) chainer(c *config.Config) *prompt.Chainer {
	by := chainConfig{secret: p.secret(c), size: c.Prefix.BlockBytes}
	ch := p.chainers[by]
	if ch == nil {
		if len(p.chainers) >= maxChainers { // those of old configurations
			clear(p.chainers)
		}
		ch = prompt.NewChainer(by.secret, by.size)
		p.chainers[by] = ch
	}
	return ch
}

// secret returns the secret of the configuration's keys. All gateways with one Redis need the same; without one in the
// configuration they have the password in common. A gateway without Redis takes one at random.
func (p *Prompts) secret(c *config.Config) [16]byte {
	switch {
	case c.Prefix.Secret != "":
		return prompt.Secret(string(c.Prefix.Secret))
	case c.UsesRedis():
		return prompt.Secret(c.Redis.Password)
	}
	return p.ProcessSecret
}
